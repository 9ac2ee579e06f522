# SPDX-License-Identifier: MIT
"""The subtests of same_frameworks.py by CuPy, JAX, Triton and Numba."""
from same_tests import digest, test, torch_digest


# ---- CuPy -----------------------------------------------------------------------------------------

def cupy_work(pool=None):
    import cupy
    if pool is not None:
        cupy.cuda.set_allocator(pool())
    cupy.random.seed(4)
    a = cupy.random.rand(700, 300)
    for i in range(40):
        before = cupy.cuda.get_current_stream().record()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.wait_event(before)
            b = cupy.sort(a[:, : 50 + i].copy(), axis=0)
            stream.synchronize()
        a = a * 0.99 + b.mean()
    host = cupy.cuda.alloc_pinned_memory(a.nbytes)
    del host
    print("result", digest(cupy.asnumpy(a)))
    print("product", digest(cupy.asnumpy(a.astype("f8") @ a.T.astype("f8"))))


@test("cupy")
def cupy_own_pool():
    cupy_work()


@test("cupy")
def cupy_no_pool():
    import cupy
    cupy.cuda.set_pinned_memory_allocator(None)
    cupy_work(lambda: None)


@test("cupy")
def cupy_async_pool():
    import cupy
    cupy_work(lambda: cupy.cuda.MemoryAsyncPool().malloc)


@test("cupy")
def cupy_memory_figures():
    import cupy
    cupy.zeros(1)
    cupy.cuda.set_allocator(None)
    free = cupy.cuda.runtime.memGetInfo()[0]
    memory = cupy.cuda.alloc(64 << 20)
    print("taken", free - cupy.cuda.runtime.memGetInfo()[0] >= 64 << 20)
    del memory
    print("back", cupy.cuda.runtime.memGetInfo()[0] == free)
    pool = cupy.cuda.MemoryAsyncPool()
    pool.free_all_blocks()
    memory = pool.malloc(1 << 20)
    print("used", pool.used_bytes(), "free", pool.total_bytes() >= pool.used_bytes())
    del memory
    cupy.cuda.Stream.null.synchronize()
    print("used", pool.used_bytes())
    attributes = cupy.cuda.runtime.pointerGetAttributes(cupy.arange(1000)[10:].data.ptr)
    print("attributes", attributes.device, attributes.type)


# ---- JAX ------------------------------------------------------------------------------------------

def jax_work():
    import jax
    import jax.numpy as jnp
    import numpy

    @jax.jit
    def step(w, x):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - x) ** 2))(w)
        return loss, w - 0.1 * grad

    key = jax.random.PRNGKey(0)
    w = jax.random.normal(key, (256, 256)) * 0.05
    for i in range(10):
        x = jax.random.normal(jax.random.fold_in(key, i), (100 + 10 * (i % 3), 256))
        loss, w = step(w, x)
        print("loss", repr(float(loss)))
    print("weights", digest(numpy.asarray(w)))


_JAX = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
for _name, _env in {
    "jax_default": {},
    "jax_platform": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
    "jax_cuda_async": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
}.items():
    test("jax", env={**_JAX, **_env}, name=_name)(jax_work)


# ---- Triton, Numba --------------------------------------------------------------------------------

@test("triton")
def triton_kernel():
    global tl, triton  # where the compiler looks for what a kernel names
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scale(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, value * 3 + 1, mask=at < n)

    torch.manual_seed(0)
    for n in (1000, 100_000, 3_000_001):
        x = torch.randn(n, device="cuda")
        y = torch.empty_like(x)
        scale[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        print(n, torch_digest(y))


@test("numba.cuda")
def numba_kernel():
    import numpy
    from numba import cuda

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 2 * y[i]

    for n in (100, 100_000, 2_000_000):
        x = numpy.arange(n, dtype=numpy.float32)
        stream = cuda.stream()
        pinned = cuda.pinned_array(n, dtype=numpy.float32)
        pinned[:] = x
        a = cuda.to_device(pinned, stream=stream)
        out = cuda.device_array_like(a, stream=stream)
        add[(n + 255) // 256, 256, stream](a, a, out)
        result = out.copy_to_host(stream=stream)
        stream.synchronize()
        del a, out
        print(n, digest(result))
    cuda.current_context().reset()
    print(digest(cuda.to_device(numpy.ones(10)).copy_to_host()))
