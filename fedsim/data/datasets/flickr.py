"""Images of Flickr that share properties: place, gallery, comments (Zeng et al., "GraphSAINT", ICLR 2020).

89,250 nodes in 7 classes; 500 features, words of the images' descriptions.  The masks are the public split,
one half of the nodes and twice a quarter.
"""

from dataclasses import dataclass
from pathlib import Path

from fedsim.data.dataset import Dataset
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://drive.usercontent.google.com/download?confirm=t&id="
FILES = {  # by the identifiers under which the authors share them
    "adj_full.npz": "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
    "feats.npy": "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
    "class_map.json": "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
    "role.json": "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
}


@dataclass(frozen=True)
class Flickr(Dataset):
    """Four files under `Flickr/raw/`."""

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        urls = {name: URL + identifier for name, identifier in FILES.items()}
        return published(root, "Flickr/raw", urls, lambda pyg, folder: pyg.Flickr(f"{folder}/Flickr"))
