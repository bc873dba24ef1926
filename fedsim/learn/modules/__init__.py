"""Plain `torch.nn.Module`s as models: found, trained one client at a time, with their buffers carried beside."""
