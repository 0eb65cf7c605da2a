"""The task `join` on sparse_dot_topn, in its own environment: VECTORS THETA LONGEST.

It keeps as many neighbours of each vector as it is told: those of the longest list, and the vector itself. Rounding may
move a tie.
"""

import json
import sys

import numpy as np
import scipy.sparse as sp
from sparse_dot_topn import sp_matmul_topn

saved = np.load(sys.argv[1])
weights = saved["weights"][saved["concepts"]].astype(np.float64)
norms = np.sqrt(np.add.reduceat(weights**2, saved["starts"][:-1]))
values = weights / np.repeat(norms, np.diff(saved["starts"]))
matrix = sp.csr_matrix((values, saved["concepts"], saved["starts"]))
most, theta = int(sys.argv[3]) + 1, float(sys.argv[2]) - 1e-9
product = sp_matmul_topn(matrix, matrix.T.tocsr(), top_n=most, threshold=theta, n_threads=2)
print(json.dumps({"released": int(product.nnz) - matrix.shape[0]}))
