{{- define "volcano-py.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of the names of objects. It is short enough for names with a suffix to have at most 63 characters. */}}
{{- define "volcano-py.fullname" -}}
{{- $name := include "volcano-py.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The Secret of the admission's certificate. */}}
{{- define "volcano-py.certificateSecret" -}}
{{ include "volcano-py.fullname" . }}-webhooks-certificate
{{- end -}}

{{/* The Secret of the key with which the scheduler signs its decisions. */}}
{{- define "volcano-py.signingKeySecret" -}}
{{ include "volcano-py.fullname" . }}-signing-key
{{- end -}}

{{/* The Secret of the certificate with which the scheduler answers tenants. */}}
{{- define "volcano-py.visibilitySecret" -}}
{{ include "volcano-py.fullname" . }}-scheduler-certificate
{{- end -}}

{{/* Labels of an object. Takes a dict of `root`, the chart's scope, and `role` ("" if the object belongs to no role). */}}
{{- define "volcano-py.labels" -}}
{{ include "volcano-py.selector" . }}
app.kubernetes.io/part-of: volcano-py
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels that select a role's Pods. Takes the dict of the labels of an object; `shard` selects one shard of the scheduler. */}}
{{- define "volcano-py.selector" -}}
app.kubernetes.io/name: {{ include "volcano-py.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .shard }}
volcano-py/shard: {{ . }}
{{- end }}
{{- end -}}

{{/* Name, namespace and labels of a role's object. Takes the dict of the labels of an object. */}}
{{- define "volcano-py.metadata" -}}
name: {{ include "volcano-py.fullname" .root }}-{{ .role }}{{ with .shard }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "volcano-py.labels" . | nindent 2 }}
{{- end -}}

{{/* Name and labels of an object without a namespace. Takes the dict of the labels of an object. */}}
{{- define "volcano-py.clusterMetadata" -}}
name: {{ include "volcano-py.fullname" .root }}-{{ .role }}
labels:
  {{- include "volcano-py.labels" . | nindent 2 }}
{{- end -}}
