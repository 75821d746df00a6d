"""The paper's tables made again, with our numbers beside the published: from run records, or by training anew."""
