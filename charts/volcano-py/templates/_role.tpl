{{/*
The Deployment of a role. Takes a dict:
  root           the chart's scope
  role           the sub-command, which is also the key of its values
  shard          name of a shard of the scheduler, if there are several
  flags          a list of what follows it on the command line, before extraArgs
  ports          a dict of names to container ports
  ready          path of the readiness probe
  configuration  whether the role has a ConfigMap, mounted at /etc/volcano-py
  tlsSecret      name of a Secret with a certificate that another program maintains, mounted at /etc/volcano-py-tls; "" if there is none
*/}}
{{- define "volcano-py.deployment" -}}
{{- $values := index .root.Values .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "volcano-py.metadata" (merge (dict "annotations" $values.deploymentAnnotations) .) | nindent 2 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- include "volcano-py.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "volcano-py.selector" . | nindent 8 }}
        app.kubernetes.io/part-of: volcano-py
        app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
        {{- with merge dict $values.podLabels .root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "volcano-py.fullname" .root }}-{{ .role }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      # Longer than any role needs to finish its requests in flight.
      terminationGracePeriodSeconds: 45
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: {{ .role }}
        image: {{ printf "%s:%s" .root.Values.image.repository (default .root.Chart.AppVersion .root.Values.image.tag) | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        - {{ .role }}
        {{- range concat .flags $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        {{- with $values.extraEnv }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        ports:
        {{- range $name, $port := .ports }}
        - name: {{ $name }}
          containerPort: {{ $port }}
        {{- end }}
        startupProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 2
          failureThreshold: 30
        livenessProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 10
          timeoutSeconds: 5
        readinessProbe:
          httpGet:
            path: {{ .ready }}
            port: health
          periodSeconds: 5
        {{- with $values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        {{- if or .configuration .tlsSecret $values.extraVolumeMounts }}
        volumeMounts:
        {{- end }}
        {{- if .configuration }}
        # The whole directory is mounted, because a file that is mounted alone would never change.
        - name: configuration
          mountPath: /etc/volcano-py
          readOnly: true
        {{- end }}
        {{- if .tlsSecret }}
        - name: tls
          mountPath: /etc/volcano-py-tls
          readOnly: true
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or .configuration .tlsSecret $values.extraVolumes }}
      volumes:
      {{- end }}
      {{- if .configuration }}
      - name: configuration
        configMap:
          name: {{ include "volcano-py.fullname" .root }}-{{ .role }}
      {{- end }}
      {{- if .tlsSecret }}
      - name: tls
        secret:
          secretName: {{ .tlsSecret }}
      {{- end }}
      {{- with $values.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
      {{- range . }}
      - {{- toYaml . | nindent 8 }}
        {{- if not .labelSelector }}
        labelSelector:
          matchLabels:
            {{- include "volcano-py.selector" $ | nindent 12 }}
        {{- end }}
      {{- end }}
      {{- end }}
{{- end -}}

{{/* Flags that all roles have. Takes a dict of `root` and `role`; returns JSON of a dict that contains a list. */}}
{{- define "volcano-py.commonFlags" -}}
{{- $flags := list (printf "--v=%v" .root.Values.log.verbosity) (printf "--log-format=%s" .root.Values.log.format) -}}
{{- range .root.Values.schedulerNames -}}
{{- $flags = append $flags (printf "--scheduler-name=%s" .) -}}
{{- end -}}
{{- dict "flags" $flags | toJson -}}
{{- end -}}

{{/* Flags of leader election, whose Lease is in leases.yaml. Takes a dict of `root` and `role`; returns JSON of a dict that contains a list. */}}
{{- define "volcano-py.leaderElectionFlags" -}}
{{- $flags := list "--leader-elect=false" -}}
{{- with .root.Values.leaderElection -}}
{{- if .enabled -}}
{{- $flags = list
      "--leader-elect=true"
      (printf "--leader-elect-resource-namespace=%s" $.root.Release.Namespace)
      (printf "--leader-elect-resource-name=%s-%s" (include "volcano-py.fullname" $.root) $.role)
      (printf "--leader-elect-lease-duration=%s" .leaseDuration)
      (printf "--leader-elect-renew-deadline=%s" .renewDeadline)
      (printf "--leader-elect-retry-period=%s" .retryPeriod) -}}
{{- end -}}
{{- end -}}
{{- dict "flags" $flags | toJson -}}
{{- end -}}

{{/* The ServiceAccount of a role. Takes a dict of `root` and `role`. */}}
{{- define "volcano-py.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- $annotations := (index .root.Values .role).serviceAccountAnnotations }}
  {{- include "volcano-py.metadata" (merge (dict "annotations" $annotations) .) | nindent 2 }}
{{- end -}}

{{/* Binds a ClusterRole to the ServiceAccount of the role, which has its name. Takes a dict of `root` and `role`. */}}
{{- define "volcano-py.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "volcano-py.clusterMetadata" . | nindent 2 }}
{{ include "volcano-py.binding" (merge (dict "kind" "ClusterRole") .) }}
{{- end -}}

{{/* Binds a Role in the namespace of the release to the ServiceAccount of the role. Takes a dict of `root` and `role`. */}}
{{- define "volcano-py.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "volcano-py.metadata" . | nindent 2 }}
{{ include "volcano-py.binding" (merge (dict "kind" "Role") .) }}
{{- end -}}

{{- define "volcano-py.binding" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ include "volcano-py.fullname" .root }}-{{ .role }}
subjects:
- kind: ServiceAccount
  name: {{ include "volcano-py.fullname" .root }}-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* Rights to the role's own Leases: its Lease, and one for each of `shards`. RBAC cannot limit `create` to a name; the role creates a Lease that was deleted. */}}
{{- define "volcano-py.leaseRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "volcano-py.metadata" . | nindent 2 }}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames:
  - {{ include "volcano-py.fullname" .root }}-{{ .role }}
  {{- range .shards }}
  - {{ include "volcano-py.fullname" $.root }}-{{ $.role }}-{{ . }}
  {{- end }}
  verbs: [get, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}
