{{/* Annotations of Pods that only the scheduler and device plugins write: whole keys, beginnings of keys, and beginnings
and ends of keys. YAML of a dict. */}}
{{- define "volcano-py.deviceAnnotations" -}}
keys:
- ascend.kubectl.kubernetes.io/ascend-910-configuration
- ascend.kubectl.kubernetes.io/ascend-npu-configuration
- hami.io/bind-phase
- hami.io/bind-time
- hami.io/vgpu-node
- hami.io/vgpu-time
- huawei.com/kltDev
- huawei.com/npu
- huawei.com/npu-core
- predicate-time
- volcano-py/binding-record
- volcano.sh/bind-phase
- volcano.sh/bind-time
- volcano.sh/devices-to-allocate
- volcano.sh/gpu-index
- volcano.sh/predicate-time
- volcano.sh/vgpu-ids-new
- volcano.sh/vgpu-node
- volcano.sh/vgpu-time
prefixes:
- huawei.com/Ascend
- huawei.com/scheduler.softShareDev.
around:
- [hami.io/, -devices-allocated]
- [hami.io/, -devices-to-allocate]
{{- end -}}
