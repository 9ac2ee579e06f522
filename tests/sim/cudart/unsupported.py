# SPDX-License-Identifier: MIT
"""unsupported.py INCLUDE-FOLDER SOURCE...: the functions that the toolkit's headers declare and no source of the double names, in C.

They answer cudaErrorNotSupported. So a program loads whatever it refers to, and learns of what is missing only where it calls it.
"""
import pathlib
import re
import sys

HEADERS = ("cuda_runtime_api.h", "cuda_profiler_api.h", "cuda_gl_interop.h", "cuda_egl_interop.h", "cuda_vdpau_interop.h", "crt/host_runtime.h")

folder = pathlib.Path(sys.argv[1])
declared = "".join((folder / name).read_text(encoding="utf-8") for name in HEADERS if (folder / name).exists())
names = set(re.findall(r"\bCUDARTAPI\w*\s+((?:__)?cuda\w+)\s*\(", declared))
names |= {f"{name}_{form.lower()}" for form, name in re.findall(r"__CUDART_API_(PTDS|PTSZ)\((cuda\w+)\)", declared)}
known = set(re.findall(r"\w+", "".join(pathlib.Path(source).read_text(encoding="utf-8") for source in sys.argv[2:])))
print("int custash_cudart_unsupported(void);")
for name in sorted(names):
    if re.sub(r"_pt[sd][sz]$", "", name) not in known:
        # The names' real prototypes do not matter here.
        print(f"int {name}(void);\nint {name}(void) {{ return custash_cudart_unsupported(); }}")
