"""Networks: encoders (words to c), the output layer (c to m and log Z), noise and normalizers."""
