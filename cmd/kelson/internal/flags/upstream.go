package flags

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

//go:generate go run ../../../../kubernetes/plugins/flagnames kubeapiserver.tsv
//go:generate go test -run TestFlagReference -update ../..

// kubeAPIServer lists the flags of kube-apiserver: name, shorthand, type and default, separated by
// tabs.
//
//go:embed kubeapiserver.tsv
var kubeAPIServer string

// Upstream is a flag of kube-apiserver.
type Upstream struct{ Name, Shorthand, Type, Default string }

// KubeAPIServer returns all flags of kube-apiserver of the linked Kubernetes version, by name.
func KubeAPIServer() []Upstream {
	var all []Upstream
	for line := range strings.Lines(kubeAPIServer) {
		column := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, Upstream{column[0], column[1], column[2], column[3]})
	}
	return all
}

// unimplemented describes how the drop-in treats a flag that it does not implement.
type unimplemented struct {
	// reason is why the flag has no effect, or why values other than the accepted ones are
	// refused.
	reason string
	// refused refuses every value but the default one and those in accepted.
	refused  bool
	accepted []string
}

func noEffect(reason string) unimplemented { return unimplemented{reason: reason} }

func refuse(reason string, accepted ...string) unimplemented {
	return unimplemented{reason: reason, refused: true, accepted: accepted}
}

// unimplementedFlags holds the flags of kube-apiserver that the drop-in does not implement.
var unimplementedFlags = func() map[string]unimplemented {
	const (
		memory     = "the state is in memory, not in etcd"
		peers      = "there are no other servers of the same cluster"
		metricSets = "metrics cannot be selected"
		elections  = "no coordinated leader election runs"
		logs       = "the log is unbuffered text on stderr"
	)
	return map[string]unimplemented{
		"allow-metric-labels":          refuse(metricSets),
		"allow-metric-labels-manifest": refuse(metricSets),
		"allow-privileged": refuse(
			"privileged containers are always allowed; admission can refuse them", "true"),
		"audit-webhook-batch-initial-backoff":   refuse("deprecated; use --audit-webhook-initial-backoff"),
		"coordinated-leadership-lease-duration": noEffect(elections),
		"coordinated-leadership-renew-deadline": noEffect(elections),
		"coordinated-leadership-retry-period":   noEffect(elections),
		"debug-socket-path": refuse(
			"profiles are only served on the secure port, by --profiling"),
		"default-watch-cache-size":                    noEffect("all watches are served from memory"),
		"delete-collection-workers":                   noEffect("one worker deletes a collection"),
		"disabled-metrics":                            refuse(metricSets),
		"egress-selector-config-file":                 refuse("egress proxies are not supported"),
		"enable-garbage-collector":                    refuse("deletion always handles dependents", "true"),
		"enable-logs-handler":                         refuse("log files of this machine are never served"),
		"encryption-provider-config":                  noEffect("the state is in memory"),
		"encryption-provider-config-automatic-reload": noEffect("the state is in memory"),
		"etcd-cafile":                                 noEffect(memory),
		"etcd-certfile":                               noEffect(memory),
		"etcd-compaction-interval":                    noEffect(memory),
		"etcd-count-metric-poll-period":               noEffect(memory),
		"etcd-db-metric-poll-interval":                noEffect(memory),
		"etcd-healthcheck-timeout":                    noEffect(memory),
		"etcd-keyfile":                                noEffect(memory),
		"etcd-prefix":                                 noEffect(memory),
		"etcd-readycheck-timeout":                     noEffect(memory),
		"etcd-servers":                                noEffect(memory),
		"etcd-servers-overrides":                      noEffect(memory),
		"external-hostname": noEffect(
			"no generated URL contains it; certificates come from --tls-cert-file"),
		"kubelet-read-only-port":       noEffect("deprecated; kube-apiserver does not use it either"),
		"kubelet-timeout":              noEffect("kube-apiserver does not use it either"),
		"kubernetes-service-node-port": refuse("the Service kubernetes has only a cluster IP"),
		"lease-reuse-duration-seconds": noEffect(memory),
		"livez-grace-period":           noEffect("the server is live when its port opens"),
		"log-flush-frequency":          noEffect(logs),
		"log-text-info-buffer-size":    noEffect(logs),
		"log-text-split-stream":        refuse(logs),
		"max-connection-bytes-per-sec": refuse("the bandwidth of connections is not limited"),
		"peer-advertise-ip":            noEffect(peers),
		"peer-advertise-port":          noEffect(peers),
		"peer-ca-file":                 noEffect(peers),
		"service-account-signing-endpoint": refuse(
			"tokens are signed in process; use --service-account-signing-key-file"),
		"show-hidden-metrics-for-version":         refuse(metricSets),
		"shutdown-send-retry-after":               refuse("not supported during --shutdown-delay-duration"),
		"shutdown-watch-termination-grace-period": refuse("watches end when the drain begins"),
		"storage-backend":                         refuse(memory, "etcd3"),
		"storage-initialization-timeout":          noEffect(memory),
		"storage-media-type":                      noEffect(memory),
		"tracing-config-file":                     refuse("traces are not exported"),
		"v":                                       noEffect("the log shows warnings and errors"),
		"vmodule":                                 noEffect("the log shows warnings and errors"),
		"watch-cache":                             noEffect("all watches are served from memory"),
		"watch-cache-sizes":                       noEffect("all watches are served from memory"),
	}
}()

// Reference returns the page of kube-apiserver's flags for the documentation. implements reports
// whether the command has a flag of its own; a flag that it lacks is never listed as working.
func Reference(implements func(name string) bool) string {
	var b strings.Builder
	b.WriteString(`# Flags of kube-apiserver

What ` + "`kelson kube-apiserver`" + ` does with each flag of kube-apiserver. No flag is ignored silently: one without effect is reported on standard
error, and a value that is not supported ends the process with the reason. This page is generated.

| flag | here |
|---|---|
`)
	for _, u := range KubeAPIServer() {
		o, found := unimplementedFlags[u.Name]
		effect := "works"
		switch {
		case !found && !implements(u.Name):
			effect = "refused: unknown flag"
		case found && !o.refused:
			effect = "no effect: " + o.reason
		case found && len(o.accepted) > 0:
			effect = "only `" + strings.Join(o.accepted, "`, `") + "`: " + o.reason
		case found:
			effect = "refused: " + o.reason
		}
		fmt.Fprintf(&b, "| `--%s` | %s |\n", u.Name, effect)
	}
	return b.String()
}

// Rest are the flags of kube-apiserver that a command does not implement.
type Rest struct{ flags *pflag.FlagSet }

// AddFlags registers each flag of kube-apiserver that is not in any of s.
func (r *Rest) AddFlags(s *Sections) {
	f := pflag.NewFlagSet("rest", pflag.ContinueOnError)
	for _, u := range KubeAPIServer() {
		o, found := unimplementedFlags[u.Name]
		if !found {
			continue
		}
		usage := "accepted for compatibility; has no effect: " + o.reason
		if o.refused {
			usage = "only the default is accepted: " + o.reason
			if len(o.accepted) > 0 {
				usage = "only " + strings.Join(o.accepted, ", ") + " is accepted: " + o.reason
			}
		}
		u.add(f, usage)
	}
	r.flags = f
	s.Area("compatibility").AddFlagSet(f)
}

// add registers a flag of the type that it has in kube-apiserver, so that malformed values are
// refused. Flags of other types accept any text.
func (u Upstream) add(f *pflag.FlagSet, usage string) {
	switch u.Type {
	case "bool":
		f.BoolP(u.Name, u.Shorthand, u.Default == "true", usage)
	case "int", "int32", "int64", "Level":
		f.Int64P(u.Name, u.Shorthand, 0, usage)
	case "uint":
		f.Uint64P(u.Name, u.Shorthand, 0, usage)
	case "float32", "float64":
		f.Float64P(u.Name, u.Shorthand, 0, usage)
	case "duration":
		f.DurationP(u.Name, u.Shorthand, 0, usage)
	case "ip":
		f.IPP(u.Name, u.Shorthand, nil, usage)
	case "string":
		f.StringP(u.Name, u.Shorthand, "", usage)
	default:
		f.StringArrayP(u.Name, u.Shorthand, nil, usage)
	}
	flag := f.Lookup(u.Name)
	if u.Default != "[]" && u.Default != "<nil>" && flag.Value.Type() != "stringArray" {
		_ = flag.Value.Set(u.Default) // kube-apiserver's own default
		flag.DefValue = flag.Value.String()
	}
}

// Check refuses the flags that ask for something that is not implemented. It writes one line to out
// for each flag that was given and has no effect.
func (r *Rest) Check(out io.Writer) error {
	var err error
	r.flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		o, values := unimplementedFlags[f.Name], []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		switch {
		case !o.refused:
			fmt.Fprintf(out, "--%s has no effect: %s\n", f.Name, o.reason)
		case err == nil:
			for _, value := range values {
				if !slices.Contains(o.accepted, value) && value != f.DefValue {
					err = fmt.Errorf("--%s=%s is not supported: %s", f.Name, value, o.reason)
				}
			}
		}
	})
	return err
}
