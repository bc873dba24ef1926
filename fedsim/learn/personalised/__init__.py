"""What personalised learners share: models of clients, class means, control variates."""
