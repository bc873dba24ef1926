"""The reference table: every method at equal bytes and at equal seconds, in four deployments.

A cell is one run: a deployment, data, a task, a method, a protocol, links as given or halved, and a seed.  A setting is
a deployment with data and a task: all that is compared.  `plan` says which cells there are, `build` makes a cell's
point, `trials` chooses hyper-parameters, `running` runs what is missing, `results` holds the tables that the page is
made from.  `findings` computes what they mean, `sentences` says it, and `written` writes both forms of the page.

Not modelled: anything beyond `fedsim`'s own points; a cell is an ordinary one, run by an ordinary sweep.
"""
