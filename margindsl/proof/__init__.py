"""Proofs: certificates as plain arrays bound to the declaration, and the script that checks them."""
