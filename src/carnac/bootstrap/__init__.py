"""The composition roots: the only modules that know everybody and join them."""
