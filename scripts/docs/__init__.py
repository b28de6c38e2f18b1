"""The pages of `docs/reference/`, made from the code by `make docs`; `render()` of each module returns one."""
