"""The pages: each is data, which ``?format=json`` gives as it is, and a template that shows them."""
