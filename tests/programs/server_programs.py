# SPDX-License-Identifier: MIT
"""Programs of servers.py behind HTTP: one request after the other, with random weights that are the same in each run.

  server_programs.py NAME PORT

POST / answers a request with what it computed; GET /health and GET /memory are what a monitor asks.
"""
import hashlib
import http.server
import json
import os
import sys


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def torch_memory():
    import torch
    return torch.cuda.mem_get_info()


def expandable():
    """Text by a language model, and a captured graph that looks at it."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    import transformers
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    config = transformers.GPT2Config(n_layer=24, n_embd=2560, n_head=20, vocab_size=4096, n_positions=2048, bos_token_id=1, eos_token_id=0)
    with torch.device("cuda"):
        model = transformers.GPT2LMHeadModel(config).eval()
        seen = torch.zeros(64, dtype=torch.long)
        weights = torch.randn(4096, 4096)
    (weights[seen] @ weights).sum(1)  # a capture may not load what it needs
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        score = (weights[seen] @ weights).sum(1)

    def answer(count):
        asked = torch.arange(5, 405, device="cuda")[None]
        text = model.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
        seen[:count].copy_(text[0, -count:])
        graph.replay()
        return text[0].tolist(), digest(score.cpu().numpy())
    return answer, torch_memory


def diffusion():
    import diffusers
    import torch
    torch.manual_seed(1)
    torch.backends.cudnn.deterministic = True
    with torch.device("cuda"):
        unet = diffusers.UNet2DModel(sample_size=64, block_out_channels=(320, 640, 1280, 1280), layers_per_block=2).half().eval()
    pipeline = diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler())
    pipeline.set_progress_bar_config(disable=True)

    def answer(count):
        made = pipeline(batch_size=2, generator=torch.Generator("cuda").manual_seed(3), num_inference_steps=count, output_type="np")
        return digest(made.images)
    return answer, torch_memory


def xgboost():
    import numpy
    import xgboost as library
    chance = numpy.random.default_rng(1)
    rows = chance.standard_normal((1_000_000, 200), dtype=numpy.float32)
    data = library.QuantileDMatrix(rows, (rows[:, 0] * rows[:, 1] > 0).astype(numpy.float32))
    how = {"device": "cuda", "tree_method": "hist", "max_depth": 8, "objective": "binary:logistic", "seed": 1}
    model = library.train(how, data, 40)

    def answer(count):
        return digest(model.predict(data)), digest(model.inplace_predict(rows[:count * 1000]))
    return answer, lambda: ()


PROGRAMS = {each.__name__: each for each in (expandable, diffusion, xgboost)}


def main():
    name, port = sys.argv[1:3]
    answer, memory = PROGRAMS[name]()

    class Handler(http.server.BaseHTTPRequestHandler):
        def say(self, what):
            body = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):  # noqa: N802
            self.say(memory() if self.path == "/memory" else "well")

        def do_POST(self):  # noqa: N802
            self.say(answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["count"]))

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", int(port)), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
