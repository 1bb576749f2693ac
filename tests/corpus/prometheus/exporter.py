"""An exporter as DCGM's: two machines of four GPUs. `exporter.py PORT FAULT_AFTER_SECONDS LOST_AFTER_SECONDS`.

Once the fault is due, GPU 2 of node1 tells XID 79 and counts errors; later its series are no longer there. Written as
text, since client libraries append `_total` to the names of counters, and DCGM's have none.
"""

import http.server
import sys
import time

BEGAN = time.monotonic()
PORT, FAULT, LOST = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])


def metrics(passed: float) -> str:
    lines = []
    for node in range(2):
        for gpu in range(4):
            is_bad = (node, gpu) == (1, 2) and passed > FAULT
            if is_bad and passed > LOST:
                continue
            labels = (
                f'gpu="{gpu}",UUID="GPU-{node}{gpu}",pci_bus_id="00000000:{gpu + 1}A:00.0",device="nvidia{gpu}",'
                f'modelName="NVIDIA H100 80GB HBM3",Hostname="node{node}",DCGM_FI_DRIVER_VERSION="550.90.07"'
            )
            code, words = (79, "GPU has fallen off the bus") if is_bad else (0, "No Error")
            lines += [
                f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 60",
                f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {0.0 if passed > FAULT else 0.92}",
                f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{labels}}} 0",
                f"DCGM_FI_DEV_POWER_VIOLATION{{{labels}}} 9223372036854775794",
                f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{labels}}} {5 if is_bad else 0}",
                f'DCGM_FI_DEV_XID_ERRORS{{{labels},err_code="{code}",err_msg="{words}"}} {code}',
            ]
    return "\n".join(lines) + "\n"


class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = metrics(time.monotonic() - BEGAN).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Exporter).serve_forever()
