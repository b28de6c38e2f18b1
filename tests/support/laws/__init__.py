"""The laws that nothing of the package asks for when it runs: one name and one definition each."""
