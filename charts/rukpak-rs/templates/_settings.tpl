{{- /* The rendered manifests of a file, with the image and the namespace of the release. */ -}}
{{- define "rukpak.file" -}}
{{- $image := required "set image to yours, with its registry: --set image=registry.example.com/rukpak@sha256:..." .root.Values.image -}}
{{- $text := required (printf "the chart lacks %s" .file) (.root.Files.Get .file) -}}
{{- $text | replace "registry.invalid/rukpak:set-me" $image | replace "rukpak-system" .root.Release.Namespace -}}
{{- end -}}

{{- /* A Deployment with what the values say of it. */ -}}
{{- define "rukpak.deployment" -}}
{{- $object := .object -}}
{{- $pod := $object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $settings := .settings -}}
{{- if hasKey $settings "replicas" }}{{ $_ := set $object.spec "replicas" (int $settings.replicas) }}{{ end -}}
{{- with $settings.args }}{{ $_ := set $container "args" (concat $container.args .) }}{{ end -}}
{{- with $settings.resources }}{{ $_ := set $container "resources" (mergeOverwrite $container.resources .) }}{{ end -}}
{{- range $field := list "nodeSelector" "tolerations" "priorityClassName" -}}
{{- with get $settings $field }}{{ $_ := set $pod $field . }}{{ end -}}
{{- end -}}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- toYaml $object -}}
{{- end -}}
