"""What tests of Carnac, and of programs that use it, share: fakes, builders and a naive oracle. Shipped with it."""
