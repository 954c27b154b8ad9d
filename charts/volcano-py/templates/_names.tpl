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

{{/* The Secret of the key with which the scheduler signs its decisions. */}}
{{- define "volcano-py.signingKeySecret" -}}
{{ include "volcano-py.fullname" . }}-signing-key
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

{{/*
The metadata of an object in a namespace. Takes a dict:
  root         the chart's scope
  role         the role of the object; "" if it belongs to none
  shard        name of a shard of the scheduler, if there are several
  suffix       follows the role in the name of the object
  name         the name of the object, if it does not begin with the role
  namespace    namespace of the object; by default that of the release
  labels       further labels
  annotations  annotations
*/}}
{{- define "volcano-py.metadata" -}}
name: {{ default (include "volcano-py.roleName" .) .name }}
namespace: {{ default .root.Release.Namespace .namespace }}
{{ include "volcano-py.labelsAndAnnotations" . }}
{{- end -}}

{{/* The metadata of an object without a namespace. Takes the dict of an object with one. */}}
{{- define "volcano-py.clusterMetadata" -}}
name: {{ default (include "volcano-py.roleName" .) .name }}
{{ include "volcano-py.labelsAndAnnotations" . }}
{{- end -}}

{{/* The name of the objects of a role. Takes the dict of an object. */}}
{{- define "volcano-py.roleName" -}}
{{ include "volcano-py.fullname" .root }}-{{ .role }}{{ with .shard }}-{{ . }}{{ end }}{{ with .suffix }}-{{ . }}{{ end }}
{{- end -}}

{{- define "volcano-py.labelsAndAnnotations" -}}
labels:
  {{- include "volcano-py.labels" . | nindent 2 }}
  {{- with merge dict (default dict .labels) .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
