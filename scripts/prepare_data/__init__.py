"""What people train on, made into one file of tokens (docs/prepare.md): read, rendered, tokenised, masked, written.

    inputs     files into records, each with its place
    formats    a record into a conversation, a prompt with its completion, or a text
    template   conversations into text, by the model's chat template in a process of its own (template_worker)
    masks      which characters of that text are trained on
    tokens     text into ids and loss bits
    token_file the file, written whole or not at all
"""
