{{/* Every path that the program can serve, and the writes for which API servers call it. YAML of a dict. */}}
{{- define "volcano-py.admissions" -}}
/jobs/mutate: {kind: job, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/jobs/validate: {kind: job, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/queues/mutate: {kind: queue, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE]}
/queues/validate: {kind: queue, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE, UPDATE, DELETE]}
/podgroups/mutate: {kind: podgroup, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/podgroups/validate: {kind: podgroup, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/pods/mutate: {kind: pod, group: "", version: v1, resource: pods, operations: [CREATE]}
/pods/validate: {kind: pod, group: "", version: v1, resource: pods, operations: [CREATE]}
/jobflows/validate: {kind: jobflow, group: flow.volcano.sh, version: v1alpha1, resource: jobflows, operations: [CREATE, UPDATE]}
/jobtemplates/validate: {kind: jobtemplate, group: flow.volcano.sh, version: v1alpha1, resource: jobtemplates, operations: [CREATE, UPDATE]}
/hypernodes/validate: {kind: hypernode, group: topology.volcano.sh, version: v1alpha1, resource: hypernodes, operations: [CREATE, UPDATE]}
/cronjobs/validate: {kind: cronjob, group: batch.volcano.sh, version: v1alpha1, resource: cronjobs, operations: [CREATE, UPDATE]}
/ascendjobs/validate: {kind: ascendjob, group: mindxdl.gitee.com, version: v1, resource: ascendjobs, operations: [CREATE, UPDATE]}
{{- end -}}

{{/* The name of the configuration of a path. */}}
{{- define "volcano-py.admissionName" -}}
volcano-admission-service{{ . | replace "/" "-" }}
{{- end -}}
