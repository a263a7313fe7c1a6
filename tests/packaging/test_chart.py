"""The Helm chart: rendered and linted by Helm, taken by Kubernetes' schemas, and its configuration by the program.

`UPDATE_GOLDEN=1` writes the rendered texts in golden/ anew.
"""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import kubelet
import kubernetes_validate
import yaml
from helm import CHART, Helm, HelmError
from image import ADMIN, ask, loopback_up

ROOT = CHART.parent.parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"
VERSIONS = ["1.25", "1.28", "1.31", "1.34", "1.37"]
CATALOG = "accounts: { far: { dialect: openai, key: { file: /secrets/portcullis/openai } } }\nmodels: { gpt-4o-mini: { targets: [{ account: far }] } }\ncallers: {}\n"
STORE = {"redis": {"file": "/secrets/portcullis/redis"}}
# What each golden file is rendered with. Together they use each value.
CASES = {
    "default": {},
    "several": {
        "replicaCount": 3,
        "server": {"store": STORE, "seal": {"keys": [{"file": "/secrets/portcullis/seal"}]}, "admin": {"hosts": ["gw.example.com"], "key": {"file": "/secrets/portcullis/admin"}}},
        "catalog": {"files": {"catalog.yaml": CATALOG, "catalog.d/acme.yaml": "callers: { acme: { models: [\"*\"] } }\n"}, "configMaps": [{"name": "keys", "items": [{"key": "b.yaml", "path": "catalog.d/keys-b.yaml"}]}]},
        "secrets": ["portcullis"],
        "persistence": {"enabled": True, "size": "2Gi", "storageClass": "fast", "annotations": {"a": "b"}},
        "ingress": {"enabled": True, "className": "nginx", "annotations": {"a": "b"}, "hosts": ["gw.example.com"], "tls": [{"secretName": "gw-tls", "hosts": ["gw.example.com"]}]},
        "networkPolicy": {"operators": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
        "monitoring": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "authorization": {"credentials": {"name": "portcullis", "key": "admin"}}}},
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        "image": {"repository": "registry.example.com/portcullis", "digest": "sha256:" + "0" * 64},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "without-volumes": {
        "replicaCount": 2,
        "fullnameOverride": "gateway",
        "server": {"store": STORE},
        "persistence": {"enabled": False, "size": "1Gi"},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False, "name": "mine"},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "priorityClassName": "high",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"c": "d"}}}],
        "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
    },
    "autoscaled": {"separateLimits": True, "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 9, "inFlight": 200, "cpu": 70}},
}


def files_of(documents):
    """Returns what the pod would see at /etc/portcullis: path to text."""
    maps = {document["metadata"]["name"]: document["data"] for document in documents if document["kind"] == "ConfigMap"}
    (workload,) = [document for document in documents if document["kind"] in ("StatefulSet", "Deployment")]
    (volume,) = [volume for volume in workload["spec"]["template"]["spec"]["volumes"] if volume["name"] == "configuration"]
    files = {}
    for source in (source["configMap"] for source in volume["projected"]["sources"]):
        data = maps.get(source["name"], {})
        files |= {item["path"]: data[item["key"]] for item in source.get("items") or [{"key": key, "path": key} for key in data] if item["key"] in data}
    return files


class ChartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.helm = Helm()
        cls.addClassCleanup(cls.helm.close)
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def rendered(self, values=None, **more):
        documents = yaml.safe_load_all(self.helm.template(values, **more))
        return [document for document in documents if document]

    def of_kind(self, kind, values=None):
        return [document for document in self.rendered(values) if document["kind"] == kind]

    def workload(self, values=None):
        (workload,) = self.of_kind("StatefulSet", values) + self.of_kind("Deployment", values)
        return workload

    def pod(self, values=None):
        return self.workload(values)["spec"]["template"]

    def server(self, values=None):
        (text,) = [map["data"]["server.yaml"] for map in self.of_kind("ConfigMap", values) if "server.yaml" in map["data"]]
        return yaml.safe_load(text)

    def refused(self, values, why):
        with self.assertRaises(HelmError) as refusal:
            self.helm.template(values)
        self.assertIn(why, str(refusal.exception))

    def folder_of(self, values, name):
        """Writes what the pod would see at /etc/portcullis."""
        folder = self.folder / name
        kubelet.swap(folder, files_of(self.rendered(values)))
        return folder

    def test_helm_finds_nothing_to_complain_of(self):
        for name, values in CASES.items():
            told = json.loads(self.helm.call("helm_lint", paths=[str(CHART)], strict=True, values=values))
            found = [message for message in told["messages"] if message["severity"] != "INFO"]
            self.assertTrue(told["passed"] and not found, (name, found))

    def test_the_packed_chart_is_the_chart(self):
        subprocess.run([ROOT / "packaging/helm/pack.py", self.folder], check=True, stdout=subprocess.DEVNULL)
        (chart,) = self.folder.glob("*.tgz")
        packed = self.helm.call("helm_template", release_name="gw", namespace="llm", chart=str(chart), values={})
        self.assertEqual(packed, self.helm.template())

    def test_the_rendered_text_is_the_golden_one(self):
        for name, values in CASES.items():
            text, file = self.helm.template(values), GOLDEN / f"{name}.yaml"
            if os.environ.get("UPDATE_GOLDEN"):
                GOLDEN.mkdir(exist_ok=True)
                file.write_text(text)
            self.assertEqual(text, file.read_text(), f"{file}: UPDATE_GOLDEN=1 tests/packaging/run.sh PROGRAM writes it anew")

    def test_kubernetes_takes_what_is_rendered(self):
        for name, values in CASES.items():
            for version in VERSIONS:
                for document in self.rendered(values, kube_version=f"v{version}.0"):
                    if document["kind"] in ("PodMonitor", "PrometheusRule"):
                        continue
                    kubernetes_validate.validate(document, version, strict=True)

    def test_the_judge_sees_an_unknown_field(self):
        workload = self.workload()
        workload["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(workload, VERSIONS[-1], strict=True)

    def test_the_pod_monitor_names_the_port_and_the_pods(self):
        (monitor,) = self.of_kind("PodMonitor", CASES["several"])
        self.assertEqual(monitor["apiVersion"], "monitoring.coreos.com/v1")
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        ports = [port["name"] for port in self.pod()["spec"]["containers"][0]["ports"]]
        self.assertEqual((endpoint["port"] in ports, endpoint["path"]), (True, "/metrics"))
        labels = self.pod(CASES["several"])["metadata"]["labels"]
        self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_selectors_find_the_pods_and_nothing_that_changes(self):
        for values in CASES.values():
            labels = self.pod(values)["metadata"]["labels"]
            selectors = [self.workload(values)["spec"]["selector"]["matchLabels"]]
            selectors += [service["spec"]["selector"] for service in self.of_kind("Service", values)]
            for kind in ("PodDisruptionBudget", "NetworkPolicy"):
                selectors += [next(iter(spec.values())) for document in self.of_kind(kind, values) for spec in [document["spec"].get("selector") or document["spec"].get("podSelector")]]
            for selector in selectors:
                self.assertLessEqual(selector.items(), labels.items())
                self.assertNotIn("app.kubernetes.io/version", selector)

    def test_the_versions_are_those_of_the_program(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = re.search(r'\[workspace\.package\].*?^version = "(.+?)"$', (ROOT / "Cargo.toml").read_text(), re.M | re.S).group(1)
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_the_program_takes_the_files(self):
        for name, values in CASES.items():
            folder = self.folder_of(values, f"conf-{name}")
            check = subprocess.run([os.environ["PROGRAM"], "check", "--no-secrets", "--conf", folder], text=True, capture_output=True)
            self.assertEqual(check.returncode, 0, (name, check.stdout, check.stderr))

    def test_each_value_is_in_the_schema_and_no_other_is_taken(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))
        for wrong in ({"replicas": 2}, {"image": {"repo": "x"}}, {"replicaCount": 0}, {"drain": {"delay": "5s"}}, {"persistence": {"size": "much"}}):
            with self.assertRaises(HelmError, msg=str(wrong)):
                self.helm.template(wrong)

    def test_the_notes_say_what_to_do_and_warn(self):
        def notes(values):
            said = self.helm.call("helm_install", release_name="gw", namespace="llm", chart=str(CHART), dry_run="client", values=values)
            return json.loads(said)["notes"]

        self.assertIn("statefulset/gw-portcullis -- portcullis key new --caller me --name laptop --create --print", notes({}))
        self.assertNotIn("WARNING", notes({}))
        risky = {"replicaCount": 2, "separateLimits": True, "persistence": {"enabled": False}, "monitoring": {"podMonitor": {"enabled": True}}}
        said = notes(risky)
        self.assertIn("deployment/gw-portcullis", said)
        for warning in ("the ledger is lost with each pod, and limits of a day or a month begin at zero", "without server.seal", "Prometheus cannot reach port 9090"):
            self.assertIn(warning, said)

    def test_the_alerts_and_the_dashboard_are_ours(self):
        values = {"monitoring": {"prometheusRule": {"enabled": True, "labels": {"release": "x"}, "book": "https://wiki.example.com/llm/"}, "dashboard": {"enabled": True}}}
        (rule,) = self.of_kind("PrometheusRule", values)
        alerts = (ROOT / "packaging/prometheus/alerts.yml").read_text()
        moved = alerts.replace("https://book.portcullis.example", "https://wiki.example.com/llm")
        self.assertEqual((rule["spec"], rule["metadata"]["labels"]["release"]), ({"groups": yaml.safe_load(moved)["groups"]}, "x"))
        (board,) = [map for map in self.of_kind("ConfigMap", values) if "portcullis.json" in map["data"]]
        self.assertEqual(board["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(json.loads(board["data"]["portcullis.json"]), json.loads((ROOT / "packaging/grafana/portcullis.json").read_text()))
        kubernetes_validate.validate(board, VERSIONS[-1], strict=True)
        values["monitoring"]["prometheusRule"]["book"] = ""
        self.assertEqual(self.of_kind("PrometheusRule", values)[0]["spec"], {"groups": yaml.safe_load(alerts)["groups"]})

    def test_a_text_arrives_as_it_was_written(self):
        for text in ("  accounts: {}\n  models: {}\n", "    # A comment that is indented.\naccounts: {}\n", "\n\n  # Ü\naccounts: {}\n", "\t# A tab.\naccounts: {}\n", "a: '{{ .Values.x }}'\n"):
            self.assertEqual(files_of(self.rendered({"catalog": {"files": {"catalog.yaml": text}}}))["catalog.yaml"], text)

    def test_what_kubernetes_would_refuse_is_refused_here(self):
        self.refused({"ingress": {"enabled": True}}, "set ingress.hosts")
        for name in ("Gateway", "1st", "a.b", "a_b", "a-"):
            self.refused({"fullnameOverride": name}, "fullnameOverride")
            self.refused({"nameOverride": name}, "nameOverride")

    # The traps.

    def test_no_two_pods_share_a_ledger(self):
        for values in CASES.values():
            workload = self.workload(values)
            data = [volume for volume in workload["spec"]["template"]["spec"]["volumes"] if volume["name"] == "data"]
            if workload["kind"] == "StatefulSet":
                (claim,) = workload["spec"]["volumeClaimTemplates"]
                self.assertEqual((claim["metadata"]["name"], claim["spec"]["accessModes"], data), ("data", ["ReadWriteOnce"], []))
                headless = [s["metadata"]["name"] for s in self.of_kind("Service", values) if s["spec"].get("clusterIP") == "None"]
                self.assertEqual(headless, [workload["spec"]["serviceName"]])
            else:
                self.assertIn("emptyDir", data[0])
            self.assertEqual(self.server(values)["ledger"]["path"], "/var/lib/portcullis/ledger.sqlite")

    def test_the_store_knows_how_many_gateways_there_are(self):
        for replicas in (1, 2, 7):
            values = {"replicaCount": replicas, "server": {"store": STORE}}
            self.assertEqual(self.server(values)["store"], STORE | {"instances": replicas})
        self.refused({"server": {"store": STORE}, "autoscaling": {"enabled": True, "cpu": 70}}, "not together with server.store")
        self.refused({"replicaCount": 2}, "more than one gateway without server.store")
        self.refused({"autoscaling": {"enabled": True, "cpu": 70}}, "more than one gateway without server.store")
        self.refused({"separateLimits": True, "autoscaling": {"enabled": True}}, "set inFlight or cpu")
        self.assertEqual(self.workload({"replicaCount": 2, "separateLimits": True})["spec"]["replicas"], 2)
        self.assertNotIn("replicas", self.workload(CASES["autoscaled"])["spec"])

    def test_what_the_chart_writes_itself_is_refused(self):
        for server in ({"listen": []}, {"drain": {}}, {"admin": {"address": "x"}}, {"ledger": {"path": "x"}}, {"store": STORE | {"instances": 3}}):
            self.refused({"server": server}, "the chart writes it itself")

    def test_the_catalog_is_a_folder_and_its_edits_restart_nothing(self):
        values = CASES["several"]
        self.assertNotIn("subPath", json.dumps(self.rendered(values)).replace('"subPathExpr"', ""))
        edited = json.loads(json.dumps(values))
        edited["catalog"]["files"]["catalog.yaml"] += "# edited\n"
        edited["catalog"]["files"]["catalog.d/acme.yaml"] += "# edited\n"
        self.assertNotEqual(self.helm.template(values), self.helm.template(edited))
        self.assertEqual(self.pod(values), self.pod(edited))
        # Each file is mounted by its name, so a new name does restart them. The book says so.
        edited["catalog"]["files"]["catalog.d/new.yaml"] = "callers: {}\n"
        self.assertNotEqual(self.pod(values), self.pod(edited))
        changed = json.loads(json.dumps(values))
        changed["server"]["attempts"] = 2
        self.assertNotEqual(self.pod(values)["metadata"]["annotations"], self.pod(changed)["metadata"]["annotations"])

    def test_a_catalog_that_cannot_be_mounted_is_refused(self):
        self.refused({"catalog": {"files": {"catalog.d/a.yaml": "#" * 1_000_001}}}, "a ConfigMap holds 1 MiB")
        self.refused({"catalog": {"files": {"keys.yaml": "callers: {}"}}}, "neither catalog.yaml nor")
        self.refused({"catalog": {"files": {"catalog.yaml": None}}}, "no source has catalog.yaml")
        main = {"name": "own", "items": [{"key": "catalog.yaml", "path": "catalog.yaml"}]}
        self.refused({"catalog": {"configMaps": [main]}}, "two sources have catalog.yaml")
        sources = self.pod({"catalog": {"files": {"catalog.yaml": None}, "configMaps": [main]}})["spec"]["volumes"][0]["projected"]["sources"]
        self.assertEqual(sources[1:], [{"configMap": main}])

    def test_secrets_are_files_for_the_pods_group(self):
        pod = self.pod(CASES["several"])["spec"]
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        self.assertEqual((secret, pod["securityContext"]["fsGroup"]), ({"secretName": "portcullis", "defaultMode": 0o440}, 65532))
        mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
        self.assertTrue(mounts["/secrets/portcullis"]["readOnly"] and mounts["/etc/portcullis"]["readOnly"])
        self.assertNotIn("env", pod["containers"][0])
        self.assertEqual(self.of_kind("Secret", CASES["several"]), [])

    def test_probes_ask_where_callers_ask(self):
        container = self.pod()["spec"]["containers"][0]
        asked = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")}
        ready, live = {"path": "/readyz", "port": "callers"}, {"path": "/livez", "port": "callers"}
        self.assertEqual(asked, {"startup": ready, "readiness": ready, "liveness": live})
        liveness = container["livenessProbe"]
        self.assertGreaterEqual(liveness["periodSeconds"] * liveness["failureThreshold"], 120)

    def test_a_pod_gets_the_time_of_its_drain(self):
        for delay, grace, expected in ((5, 60, 75), (0, 25, 35), (10, 600, 620)):
            values = {"drain": {"delay": delay, "grace": grace}}
            pod = self.pod(values)["spec"]
            self.assertEqual(pod["terminationGracePeriodSeconds"], expected)
            self.assertNotIn("lifecycle", pod["containers"][0])
            self.assertEqual(self.server(values)["drain"], {"delay": f"{delay}s", "grace": f"{grace}s"})
        self.assertEqual(self.pod()["spec"]["terminationGracePeriodSeconds"], 75)

    def test_an_update_takes_no_pod_away_first(self):
        strategy = self.workload(CASES["without-volumes"])["spec"]["strategy"]
        self.assertEqual(strategy["rollingUpdate"], {"maxUnavailable": 0, "maxSurge": 1})

    def test_bodies_get_a_third_of_the_memory_and_uploads_half_of_the_volume(self):
        for memory, expected in (("1Gi", "341MiB"), ("192Mi", "64MiB"), ("2G", "635MiB"), ("1.5Gi", "512MiB"), (1073741824, "341MiB"), ("4096Mi", "1365MiB")):
            self.assertEqual(self.server({"resources": {"limits": {"memory": memory}}})["limits"]["buffered_total"], expected)
        self.refused({"resources": {"limits": {"memory": "128Mi"}}}, "is too little")
        self.refused({"resources": {"limits": {"memory": "1e9"}}}, "not a size that the chart understands")
        self.assertNotIn("buffered_total", self.server({"resources": {"limits": None}})["limits"])
        own = {"server": {"limits": {"buffered_total": "100MiB", "spool_total": "1GiB", "connections": 50}}}
        self.assertEqual(self.server(own)["limits"], own["server"]["limits"])
        self.assertEqual(self.server({"persistence": {"size": "2Gi"}})["limits"]["spool_total"], "1024MiB")

    def test_a_pod_may_do_nothing_but_its_work(self):
        for values in CASES.values():
            pod = self.pod(values)["spec"]
            container = pod["containers"][0]
            self.assertFalse(pod["automountServiceAccountToken"])
            context, of_pod = container["securityContext"], pod["securityContext"]
            # The profile "restricted" of Kubernetes' Pod Security Standards.
            self.assertEqual(context, {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
            self.assertEqual((of_pod["runAsNonRoot"], of_pod["runAsUser"], of_pod["seccompProfile"]), (True, 65532, {"type": "RuntimeDefault"}))
            for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(forbidden, pod)
            self.assertTrue(all(set(volume) - {"name"} <= {"projected", "secret", "emptyDir", "configMap"} for volume in pod["volumes"]))

    def test_only_operators_reach_what_operators_see(self):
        def operators(values):
            (policy,) = self.of_kind("NetworkPolicy", values)
            rules = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
            self.assertIsNone(rules.pop("callers"))
            return rules

        self.assertEqual(operators({}), {})
        self.assertEqual(operators(CASES["several"]), {"operators": CASES["several"]["networkPolicy"]["operators"]})
        for service in self.of_kind("Service", CASES["several"]):
            self.assertEqual([port["targetPort"] for port in service["spec"]["ports"]], ["callers"])

    def test_pods_are_spread_over_nodes_unless_the_values_say_otherwise(self):
        (own,) = self.pod()["spec"]["topologySpreadConstraints"]
        self.assertEqual((own["topologyKey"], own["whenUnsatisfiable"]), ("kubernetes.io/hostname", "ScheduleAnyway"))
        self.assertLessEqual(own["labelSelector"]["matchLabels"].items(), self.pod()["metadata"]["labels"].items())
        values = CASES["without-volumes"]
        self.assertEqual(self.pod(values)["spec"]["topologySpreadConstraints"], values["topologySpreadConstraints"])

    def test_extra_variables_and_volumes_reach_the_pod(self):
        values = CASES["without-volumes"]
        pod = self.pod(values)["spec"]
        self.assertEqual(pod["containers"][0]["env"], values["extraEnv"])
        self.assertIn(values["extraVolumes"][0], pod["volumes"])
        self.assertIn(values["extraVolumeMounts"][0], pod["containers"][0]["volumeMounts"])

    def test_a_disruption_budget_never_blocks_a_single_pod(self):
        self.assertEqual(self.of_kind("PodDisruptionBudget"), [])
        (budget,) = self.of_kind("PodDisruptionBudget", CASES["several"])
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)

    def test_the_autoscaler_is_off_and_counts_running_requests(self):
        self.assertEqual(self.of_kind("HorizontalPodAutoscaler"), [])
        (scaler,) = self.of_kind("HorizontalPodAutoscaler", CASES["autoscaled"])
        pods = scaler["spec"]["metrics"][0]["pods"]
        self.assertEqual(pods, {"metric": {"name": "portcullis_in_flight"}, "target": {"type": "AverageValue", "averageValue": "200"}})
        self.assertIn("portcullis_in_flight", (ROOT / "docs/src/reference/metrics.md").read_text())

    def test_an_edit_arrives_by_the_kubelets_swap(self):
        """The kubelet writes a new folder and swaps the link `..data`. Files in catalog.d, and secrets, come by it, too."""
        loopback_up()
        mounted = self.folder / "mounted"
        server = "log: { access: off }\nledger: { enabled: false }\n"
        account = f"key: {{ file: {mounted}/secret/openai }}"
        catalog = "accounts: { far: { dialect: openai, %s } }\nmodels: { m: { targets: [{ account: far }] } }\ncallers: {}\n" % account
        more = "models: { %s: { targets: [{ account: far }] } }\n"
        kubelet.swap(mounted / "secret", {"openai": "sk-of-the-first-generation"}, 0o440)
        kubelet.swap(mounted / "conf", {"server.yaml": server, "catalog.yaml": catalog, "catalog.d/more.yaml": more % "old"})
        process = subprocess.Popen([os.environ["PROGRAM"], "serve", "--conf", mounted / "conf"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def status(wanted):
            for _ in range(2400):
                try:
                    status = json.loads(ask(f"{ADMIN}/status")[1])
                    if wanted(status):
                        return
                except OSError:
                    pass
                time.sleep(0.05)
            self.fail(f"not live: {status}")

        try:
            models = lambda status: sorted(model["id"] for model in status["models"])
            status(lambda status: models(status) == ["m", "old"])
            kubelet.swap(mounted / "conf", {"server.yaml": server, "catalog.yaml": catalog, "catalog.d/more.yaml": more % "new"})
            status(lambda status: models(status) == ["m", "new"])
            kubelet.swap(mounted / "secret", {"openai": "sk-of-the-second-generation"}, 0o440)
            status(lambda status: status["catalog"]["generation"] == 3)
        finally:
            process.terminate()
            told = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, told)


if __name__ == "__main__":
    unittest.main()
