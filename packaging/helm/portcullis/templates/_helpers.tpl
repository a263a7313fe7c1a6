{{/* Names. */}}
{{- define "portcullis.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "portcullis.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "portcullis.labels" -}}
{{ include "portcullis.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "portcullis.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "portcullis.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* A quantity such as 1.5Gi, in MiB, as a whole number. */}}
{{- define "portcullis.mib" -}}
{{- /* A large number without a unit arrives as 1.073741824e+09. */ -}}
{{- $text := ternary (toString .) (printf "%.0f" (float64 .)) (kindIs "string" .) }}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text }}
{{- $unit := trimPrefix $number $text }}
{{- $bytes := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- if or (not $number) (not (hasKey $bytes $unit)) }}
{{- fail (printf "%s is not a size that the chart understands: write it as 512Mi or 2Gi" $text) }}
{{- end }}
{{- floor (divf (mulf (float64 $number) (get $bytes $unit)) 1048576.0) | int64 }}
{{- end }}

{{/* What cannot work is refused, with the reason. */}}
{{- define "portcullis.check" -}}
{{- $server := .Values.server }}
{{- range list "listen" "drain" }}
{{- if hasKey $server . }}{{ fail (printf "server.%s: the chart writes it itself: %s" . (ternary "use the value drain" "the pod listens on 8080" (eq . "drain"))) }}{{ end }}
{{- end }}
{{- if hasKey (default dict $server.admin) "address" }}{{ fail "server.admin.address: the chart writes it itself: 0.0.0.0:9090" }}{{ end }}
{{- if hasKey (default dict $server.ledger) "path" }}{{ fail "server.ledger.path: the chart writes it itself: on the pod's volume" }}{{ end }}
{{- if hasKey (default dict $server.store) "instances" }}{{ fail "server.store.instances: the chart writes it itself: it is replicaCount" }}{{ end }}
{{- if and .Values.autoscaling.enabled $server.store }}
{{- fail "autoscaling.enabled: not together with server.store. While the store is out, each gateway allows its part of every limit, so it must know how many they are (store.instances); an autoscaler changes that number. Set replicaCount instead" }}
{{- end }}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) }}
{{- if and $many (not $server.store) (not .Values.separateLimits) }}
{{- fail "more than one gateway without server.store: each would allow the whole of every limit. Set server.store (a Redis or Valkey), or separateLimits: true if you want that" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.inFlight) (not .Values.autoscaling.cpu) }}
{{- fail "autoscaling: set inFlight or cpu" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.enabled: set ingress.hosts, such as [llm.example.com]" }}
{{- end }}
{{- $hasMain := false }}
{{- range $path, $text := .Values.catalog.files }}
{{- if $text }}
{{- if eq $path "catalog.yaml" }}{{ $hasMain = true }}
{{- else if not (regexMatch "^catalog\\.d/[A-Za-z0-9_-][A-Za-z0-9._-]*\\.ya?ml$" $path) }}
{{- fail (printf "catalog.files: %s is neither catalog.yaml nor a YAML file of catalog.d" $path) }}
{{- end }}
{{- if gt (len $text) 1000000 }}
{{- fail (printf "catalog.files: %s has %d bytes, and a ConfigMap holds 1 MiB: split it into several files of catalog.d" $path (len $text)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $map := .Values.catalog.configMaps }}
{{- range $map.items }}
{{- if eq .path "catalog.yaml" }}
{{- if $hasMain }}{{ fail "catalog: two sources have catalog.yaml: write `catalog.files: { catalog.yaml: null }`" }}{{ end }}
{{- $hasMain = true }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $hasMain }}{{ fail "catalog: no source has catalog.yaml" }}{{ end }}
{{- end }}

{{/* server.yaml. */}}
{{- define "portcullis.server" -}}
{{- include "portcullis.check" . }}
{{- $server := deepCopy .Values.server }}
{{- $drain := dict "delay" (printf "%ds" (int .Values.drain.delay)) "grace" (printf "%ds" (int .Values.drain.grace)) }}
{{- $own := dict "listen" (list (dict "address" "0.0.0.0:8080")) "admin" (dict "address" "0.0.0.0:9090") "drain" $drain }}
{{- $_ := set $own "ledger" (dict "path" "/var/lib/portcullis/ledger.sqlite") }}
{{- if $server.store }}{{ $_ := set $own "store" (dict "instances" (int .Values.replicaCount)) }}{{ end }}
{{- $limits := dict }}
{{- $memory := dig "limits" "memory" "" .Values.resources }}
{{- if and $memory (not (dig "limits" "buffered_total" "" $server)) }}
{{- $third := div (int64 (include "portcullis.mib" $memory)) 3 }}
{{- if lt $third 64 }}
{{- fail (printf "resources.limits.memory: %s is too little: bodies get a third of it, and one answer may have 64 MiB. Give 192Mi or more, or set server.limits" $memory) }}
{{- end }}
{{- $_ := set $limits "buffered_total" (printf "%dMiB" $third) }}
{{- end }}
{{- if not (dig "limits" "spool_total" "" $server) }}
{{- $_ := set $limits "spool_total" (printf "%dMiB" (div (int64 (include "portcullis.mib" .Values.persistence.size)) 2)) }}
{{- end }}
{{- $_ := set $own "limits" $limits }}
{{- mustMergeOverwrite $server $own | toYaml }}
{{- end }}

{{/* The pod. */}}
{{- define "portcullis.pod" -}}
metadata:
  labels:
    {{- include "portcullis.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Of server.yaml only: it is read at the start. Edits of the catalog must not restart the pods.
    checksum/server: {{ include "portcullis.server" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "portcullis.account" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # The delay and the grace of the drain, 8 s to write what waits, and 2 s more.
  terminationGracePeriodSeconds: {{ add (int .Values.drain.delay) (int .Values.drain.grace) 10 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: portcullis
      image: {{ if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}{{ else }}{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}{{ end }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["serve", "--conf", "/etc/portcullis"]
      {{- with .Values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - { name: callers, containerPort: 8080 }
        - { name: operators, containerPort: 9090 }
      # On the callers' port: a pod is ready if callers reach it. There is no preStop: the image has no shell, and drain.delay waits.
      startupProbe:
        httpGet: { path: /readyz, port: callers }
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        httpGet: { path: /readyz, port: callers }
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      livenessProbe:
        httpGet: { path: /livez, port: callers }
        periodSeconds: 20
        timeoutSeconds: 10
        failureThreshold: 6
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        # Folders, never a subPath: what is mounted by a subPath is never updated.
        - { name: configuration, mountPath: /etc/portcullis, readOnly: true }
        - { name: data, mountPath: /var/lib/portcullis }
        {{- range .Values.secrets }}
        - { name: {{ printf "secret-%s" . | trunc 63 | quote }}, mountPath: {{ printf "/secrets/%s" . | quote }}, readOnly: true }
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: configuration
      projected:
        sources:
          - configMap:
              name: {{ include "portcullis.fullname" . }}-server
          {{- range $path, $text := .Values.catalog.files }}
          {{- if $text }}
          - configMap:
              name: {{ include "portcullis.catalog" (list $ $path) }}
              items: [{ key: {{ base $path }}, path: {{ $path }} }]
          {{- end }}
          {{- end }}
          {{- range .Values.catalog.configMaps }}
          - configMap:
              {{- toYaml . | nindent 14 }}
          {{- end }}
    {{- range .Values.secrets }}
    - name: {{ printf "secret-%s" . | trunc 63 | quote }}
      secret: { secretName: {{ . | quote }}, defaultMode: 0440 }
    {{- end }}
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir: { sizeLimit: {{ .Values.persistence.size }} }
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "portcullis.selector" . | nindent 10 }}
    {{- end }}
{{- end }}

{{/* The name of the ConfigMap of one file of the catalog. Its arguments: the root, the path. */}}
{{- define "portcullis.catalog" -}}
{{- $path := index . 1 }}
{{- printf "%s-catalog%s" (include "portcullis.fullname" (index . 0)) (ternary "" (printf "-%s" (sha256sum $path | trunc 6)) (eq $path "catalog.yaml")) }}
{{- end }}
