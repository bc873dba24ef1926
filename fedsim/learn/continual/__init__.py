"""What continual learners share: replay, past classes, prototypes, states of snapshots."""
