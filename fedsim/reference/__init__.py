"""The reference table: every method at equal bytes and at equal seconds, in four deployments.

A cell is one run: a deployment, data, a task, a method, a protocol, links as given or halved, and a seed.  `plan` says
which cells there are, `build` makes their points, `trials` chooses hyper-parameters, `running` runs what is missing,
and `results` holds the tables.  `findings` computes what they mean, `page` writes it.

Not modelled: anything beyond `fedsim`'s own points; a cell is an ordinary one, run by an ordinary sweep.
"""
