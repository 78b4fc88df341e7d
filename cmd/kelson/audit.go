package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/audit"
	"kelson.dev/kubernetes/controlplane"
)

// auditFlags say what is recorded and where, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type auditFlags struct {
	cfg   audit.Config
	trail *audit.Trail // nil before apply, and if nothing is recorded

	versions [2]string
}

const auditVersion = "audit.k8s.io/v1"

func (o *auditFlags) addFlags(f *pflag.FlagSet) {
	o.cfg = audit.Defaults()
	f.StringVar(&o.cfg.PolicyFile, "audit-policy-file", "", "Policy that says which requests are recorded, and how much of them (default: none is); read again when it changes")

	log := &o.cfg.Log
	f.StringVar(&log.Path, "audit-log-path", "", "file that requests are recorded in; \"-\" is standard output")
	f.StringVar(&log.Format, "audit-log-format", log.Format, "format of the file: "+strings.Join(audit.Formats(), " or "))
	f.IntVar(&log.MaxSize, "audit-log-maxsize", log.MaxSize, "megabytes that a file gets before it is put aside; 0: it never is")
	f.IntVar(&log.MaxBackups, "audit-log-maxbackup", log.MaxBackups, "how many old files are kept; 0: all")
	f.IntVar(&log.MaxAge, "audit-log-maxage", log.MaxAge, "how many days old files are kept; 0: for ever")
	f.BoolVar(&log.Compress, "audit-log-compress", false, "compress old files with gzip")
	addDelivery(f, "log", &log.Delivery)

	hook := &o.cfg.Webhook
	f.StringVar(&hook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a server that requests are recorded at")
	f.DurationVar(&hook.InitialBackoff, "audit-webhook-initial-backoff", hook.InitialBackoff, "how long to wait before a failed request to it is tried again")
	addDelivery(f, "webhook", &hook.Delivery)
	for i, plugin := range []string{"log", "webhook"} {
		f.StringVar(&o.versions[i], "audit-"+plugin+"-version", auditVersion, "version of the events; there is one")
	}
}

func addDelivery(f *pflag.FlagSet, plugin string, d *audit.Delivery) {
	name := func(s string) string { return "audit-" + plugin + "-" + s }
	f.StringVar(&d.Mode, name("mode"), d.Mode, "how events are delivered: "+strings.Join(audit.Modes(), ", "))
	b := &d.Batch
	f.IntVar(&b.BufferSize, name("batch-buffer-size"), b.BufferSize, "events that wait at most, in mode batch; more are lost")
	f.IntVar(&b.MaxBatchSize, name("batch-max-size"), b.MaxBatchSize, "events in a batch")
	f.DurationVar(&b.MaxBatchWait, name("batch-max-wait"), b.MaxBatchWait, "how long a batch waits to become full")
	f.BoolVar(&b.ThrottleEnable, name("batch-throttle-enable"), b.ThrottleEnable, "limit the rate of batches")
	f.Float32Var(&b.ThrottleQPS, name("batch-throttle-qps"), b.ThrottleQPS, "batches a second on average")
	f.IntVar(&b.ThrottleBurst, name("batch-throttle-burst"), b.ThrottleBurst, "batches at once after a pause")
	f.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "cut large events and batches")
	f.Int64Var(&d.Limits.MaxBatchSize, name("truncate-max-batch-size"), d.Limits.MaxBatchSize, "bytes of a batch; a larger one is divided")
	f.Int64Var(&d.Limits.MaxEventSize, name("truncate-max-event-size"), d.Limits.MaxEventSize, "bytes of an event; a larger one loses its objects")
}

// apply opens the audit trail and sets it in cfg.
func (o *auditFlags) apply(cfg *controlplane.Config) error {
	if o.cfg.PolicyFile == "" && (o.cfg.Log.Path != "" || o.cfg.Webhook.ConfigFile != "") {
		logger(cfg).Warn("there is no --audit-policy-file: nothing is recorded")
	}
	if o.cfg.Log.Delivery.Mode == "" { // flags were never added
		return nil
	}
	for _, version := range o.versions {
		if version != auditVersion {
			return fmt.Errorf("invalid group version %q, allowed versions are [%s]", version, auditVersion)
		}
	}
	o.cfg.Stdout, o.cfg.Logger = os.Stdout, cfg.Log
	trail, err := audit.Open(o.cfg)
	if err != nil || trail == nil {
		return err
	}
	o.trail = trail
	cfg.Audit = controlplane.Audit{Policy: trail, Sink: trail}
	return nil
}

// close ends the trail, when the control plane has ended.
func (o *auditFlags) close() error {
	if o.trail == nil {
		return nil
	}
	return o.trail.Close()
}

func logger(cfg *controlplane.Config) *slog.Logger {
	if cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return cfg.Log
}
