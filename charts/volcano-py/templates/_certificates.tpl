{{/*
The certificates of the roles that API servers connect to: `webhooks`, and `scheduler` for scheduler.visibility. A role
maintains its certificate itself, or cert-manager does, or the Secret of the value tlsSecret has it. The templates take a
dict of `root` and `role`.
*/}}

{{/* The Secret of a certificate that the role maintains itself. */}}
{{- define "volcano-py.ownCertificateSecret" -}}
{{ include "volcano-py.roleName" . }}-certificate
{{- end -}}

{{/* The value tlsSecret of the role. */}}
{{- define "volcano-py.givenTlsSecret" -}}
{{- with .root.Values -}}
{{ ternary .webhooks.tlsSecret .scheduler.visibility.tlsSecret (eq $.role "webhooks") }}
{{- end -}}
{{- end -}}

{{/* The name of the Certificate of cert-manager; "" if there is none. */}}
{{- define "volcano-py.certificate" -}}
{{- if and .root.Values.certManager.enabled (not (include "volcano-py.givenTlsSecret" .)) -}}
{{ include "volcano-py.roleName" . }}
{{- end -}}
{{- end -}}

{{/* The Secret of a certificate that the role only reads; "" if the role maintains its certificate itself. */}}
{{- define "volcano-py.tlsSecret" -}}
{{- with include "volcano-py.certificate" . -}}
{{ . }}-tls
{{- else -}}
{{ include "volcano-py.givenTlsSecret" . }}
{{- end -}}
{{- end -}}

{{/* The annotation that makes cert-manager write the authority of the certificate into an object: YAML of a dict. */}}
{{- define "volcano-py.trustAnnotation" -}}
{{- with include "volcano-py.certificate" . -}}
cert-manager.io/inject-ca-from: {{ $.root.Release.Namespace }}/{{ . }}
{{- end -}}
{{- end -}}
