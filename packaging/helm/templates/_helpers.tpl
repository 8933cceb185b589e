{{- define "howdah.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "howdah.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The document: the site takes all requests of the port. */}}
{{- define "howdah.document" -}}
{{- $own := dict "probes" (dict "listen" (printf "*:%v" .Values.probes.port)) -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $own "metrics" (dict "listen" (printf "*:%v" .Values.metrics.port)) -}}
{{- end -}}
{{- $settings := merge $own .Values.settings -}}
{{- $environment := dict -}}
{{- range $name, $value := .Values.environment -}}
{{- $_ := set $environment $name (toString $value) -}}
{{- end -}}
{{- $site := deepCopy .Values.site -}}
{{- if $environment -}}
{{- $_ := set $site "environment" (merge (dict) (default (dict) $site.environment) $environment) -}}
{{- end -}}
{{- $log := dict "path" "/dev/stdout" "format" (dict "client" "$remote_addr" "request" "$request_line" "status" "$status" "time" "$request_time") -}}
{{- $site = merge (dict "hosts" "*" "https" false) $site -}}
{{- toPrettyJson (dict "sites" (dict "site" $site) "defaults" (dict "listen" "*:8080") "settings" $settings "access_log" $log) -}}
{{- end -}}
