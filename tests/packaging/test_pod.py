"""The chart's pod, without Kubernetes: the image runs with what the chart renders.

Its volumes are as the kubelet makes them.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import kubelet
import pages
import yaml
from helm import Helm
from image import ADMIN, CALLERS, HELLO, USER, Image, ask, loopback_up
from test_chart import ROOT, files_of

CATALOG = """accounts: { demo: { dialect: demo }, far: { dialect: openai, key: { file: /secrets/portcullis/openai } } }
models: { m: { targets: [{ account: demo }] }, far: { targets: [{ account: far }] } }
callers: {}
"""


class PodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.helm = Helm()
        cls.addClassCleanup(cls.helm.close)
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder.chmod(0o755)
        cls.image = Image.unpacked()
        loopback_up()

    def rendered(self, values, **more):
        return [document for document in yaml.safe_load_all(self.helm.template(values, **more)) if document]

    def notes(self, values):
        return json.loads(self.helm.call("helm_install", release_name="gw", namespace="llm", chart=str(ROOT / "packaging/helm/portcullis"), dry_run="client", values=values))["notes"]

    def test_it_runs_as_the_chart_says(self):
        values = {"secrets": ["portcullis"], "catalog": {"files": {"catalog.yaml": CATALOG}}}
        documents = self.rendered(values)
        (workload,) = [document for document in documents if document["kind"] == "StatefulSet"]
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        group = pod["securityContext"]["fsGroup"]
        self.assertEqual((pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]), (USER, USER))
        # The volumes. That of the data belongs to root and the group.
        conf, secrets, data = (self.folder / name for name in ("conf", "secrets", "data"))
        kubelet.swap(conf, files_of(documents), 0o644, (0, group))
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        kubelet.swap(secrets, {"openai": "sk-of-a-provider"}, secret["defaultMode"], (0, group))
        (data / "lost+found").mkdir(parents=True, mode=0o700)
        os.chown(data, 0, group)
        data.chmod(0o2775)
        sources = {"configuration": conf, "data": data, "secret-portcullis": secrets}
        volumes = {mount["mountPath"]: (sources[mount["name"]], "ro" if mount.get("readOnly") else "rw") for mount in container["volumeMounts"]}
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}

        def probe(name):
            asked = container[f"{name}Probe"]["httpGet"]
            try:
                return ask(f"http://127.0.0.1:{ports[asked['port']]}{asked['path']}")[0] == 200
            except OSError:
                return False

        with self.image.mounted(volumes) as (root, _):
            with self.image.serving(root, *container["args"], ready=lambda: probe("startup")) as said:
                self.assertTrue(probe("readiness") and probe("liveness"))
                self.assertIn("portcullis_build_info", ask(f"http://127.0.0.1:{ports['operators']}/metrics")[1])
                # The first key, as the notes say. An edit brings it, and the pod stays the same.
                (new,) = re.findall(r"exec statefulset/gw-portcullis -- portcullis (.+)$", self.notes(values), re.M)
                said_of_key = self.image.run(root, *shlex.split(new))
                self.assertEqual(said_of_key.returncode, 0, said_of_key.stderr)
                key = re.search(r"^sk-.+$", said_of_key.stdout, re.M).group()
                edited = {"catalog": {"files": {"catalog.yaml": CATALOG.replace("callers: {}\n", "") + said_of_key.stdout[said_of_key.stdout.index("callers:") :]}}}
                again = self.rendered(values | edited)
                self.assertEqual([d for d in again if d["kind"] == "StatefulSet"], [workload])
                kubelet.swap(conf, files_of(again), 0o644, (0, group))
                for _ in range(600):
                    status, text = ask(f"{CALLERS}/v1/chat/completions", HELLO, key)
                    if status == 200:
                        break
                    time.sleep(0.1)
                self.assertEqual(status, 200, text)
                stop = time.monotonic()
            self.assertLess(time.monotonic() - stop, pod["terminationGracePeriodSeconds"])
            self.assertGreaterEqual(time.monotonic() - stop, 5, "load balancers have time to notice")
        self.assertEqual((data / "ledger.sqlite").stat().st_uid, USER)
        self.assertIn('"outcome":"ok"', said[0])

    def test_the_commands_of_the_book(self):
        """What the commands ask of a cluster is done without one."""
        copy, seal, secret, install, first = [shlex.split(line) for line in pages.commands("Kubernetes")]
        values = yaml.safe_load(pages.blocks("Kubernetes")[1])
        # The image that is pushed is the one that the chart names. Here it goes to a folder.
        self.assertEqual((copy[:2], copy[2]), (["skopeo", "copy"], f"oci-archive:{self.image.file.name}"))
        subprocess.run(["skopeo", "copy", "--quiet", copy[2], f"dir:{self.folder}/pushed"], cwd=self.image.file.parent, check=True)
        subprocess.run([ROOT / "packaging/helm/pack.py", self.folder], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(install[:3] + install[4:7], ["helm", "install", "gw", "-f", "values.yaml", "--set-file"])
        name, _, source = install[7].partition("=")
        self.assertEqual(re.split(r"(?<!\\)\.", name), ["catalog", "files", r"catalog\.yaml"])
        self.assertEqual(source, "conf/catalog.yaml")
        documents = [document for document in yaml.safe_load_all(self.helm.call("helm_template", release_name="gw", namespace="llm", chart=str(self.folder / install[3]), values=values | {"catalog": {"files": {"catalog.yaml": CATALOG}}})) if document]
        (workload,) = [document for document in documents if document["kind"] == "StatefulSet"]
        pod = workload["spec"]["template"]["spec"]
        self.assertEqual(f"docker://{pod['containers'][0]['image']}", copy[3])
        subprocess.run(["sh", "-c", shlex.join(seal).replace("'>'", ">")], cwd=self.folder, check=True)
        self.assertGreaterEqual(len((self.folder / "seal.key").read_text().strip()), 32)
        # The Secret has what the catalog and the settings read.
        self.assertEqual(secret[:5], ["kubectl", "create", "secret", "generic", values["secrets"][0]])
        keys = {option.removeprefix("--from-file=").split("=")[0] for option in secret[5:]}
        wanted = set(re.findall(r"/secrets/portcullis/(\w+)", json.dumps(files_of(documents))))
        self.assertEqual(wanted, keys)
        self.assertEqual(first[:4], ["kubectl", "exec", f"statefulset/{workload['metadata']['name']}", "--"])
        self.assertIn(" ".join(first[4:]), self.notes({}))


class PageTest(unittest.TestCase):
    def test_each_block_of_the_chapter_is_tried(self):
        # By the tests of each package.
        found = {heading: len(pages.blocks(heading)) for heading in pages.sections()}
        tried = {"Tarball": 1, "Python and Node": 1, "Container": 1, "Kubernetes": 2, "Debian": 1, "systemd": 1}
        self.assertEqual({heading: many for heading, many in found.items() if many}, tried)


if __name__ == "__main__":
    unittest.main()
