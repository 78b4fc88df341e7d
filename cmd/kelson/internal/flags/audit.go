package flags

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/audit"
	"kelson.dev/kubernetes/controlplane"
)

// Audit are the flags of the audit trail, with kube-apiserver's names.
type Audit struct {
	cfg   audit.Config
	trail *audit.Trail // nil before Apply, and if nothing is recorded

	versions [2]string

	log    string // the file of --audit-log
	policy string // the temporary file with its policy
}

const auditVersion = "audit.k8s.io/v1"

// AddLogFlag registers the flag --audit-log instead of kube-apiserver's flags: one file with all
// requests, as kelson rights and kelson why read it.
func (o *Audit) AddLogFlag(f *pflag.FlagSet) {
	f.StringVar(&o.log, "audit-log", "",
		"file to replace by an audit log of all requests, for kelson rights and kelson why")
}

// logPolicy records all requests of --audit-log once, without their bodies.
const logPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`

// replaceLog configures the audit log of --audit-log and empties the file.
func (o *Audit) replaceLog() error {
	policy, err := os.CreateTemp("", "kelson-audit-policy-")
	if err != nil {
		return err
	}
	o.policy = policy.Name()
	_, err = policy.WriteString(logPolicy)
	if err := errors.Join(err, policy.Close()); err != nil {
		return err
	}
	if err := os.WriteFile(o.log, nil, 0o600); err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	o.cfg = audit.Defaults()
	o.cfg.PolicyFile, o.cfg.Log.Path, o.cfg.Log.MaxSize = o.policy, o.log, 0
	o.versions = [2]string{auditVersion, auditVersion}
	return nil
}

// AddFlags registers the flags.
func (o *Audit) AddFlags(f *pflag.FlagSet) {
	o.cfg = audit.Defaults()
	f.StringVar(&o.cfg.PolicyFile, "audit-policy-file", "",
		"audit Policy file: which requests to record, and at which level (default: record nothing); reloaded when it changes")

	log := &o.cfg.Log
	f.StringVar(&log.Path, "audit-log-path", "", "file that events are written to; \"-\" is standard output")
	f.StringVar(&log.Format, "audit-log-format", log.Format,
		"format of the file: "+strings.Join(audit.Formats(), " or "))
	f.IntVar(&log.MaxSize, "audit-log-maxsize", log.MaxSize, "size in megabytes at which the file is rotated; 0: never")
	f.IntVar(&log.MaxBackups, "audit-log-maxbackup", log.MaxBackups, "number of rotated files to keep; 0: all")
	f.IntVar(&log.MaxAge, "audit-log-maxage", log.MaxAge, "days to keep rotated files; 0: forever")
	f.BoolVar(&log.Compress, "audit-log-compress", false, "compress rotated files with gzip")
	addDelivery(f, "log", &log.Delivery)

	hook := &o.cfg.Webhook
	f.StringVar(&hook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a server that events are sent to")
	f.DurationVar(&hook.InitialBackoff, "audit-webhook-initial-backoff", hook.InitialBackoff,
		"how long to wait before the first retry of a failed request to the webhook")
	addDelivery(f, "webhook", &hook.Delivery)
	for i, plugin := range []string{"log", "webhook"} {
		f.StringVar(&o.versions[i], "audit-"+plugin+"-version", auditVersion,
			"version of the events; only "+auditVersion+" is supported")
	}
}

func addDelivery(f *pflag.FlagSet, plugin string, d *audit.Delivery) {
	name := func(s string) string { return "audit-" + plugin + "-" + s }
	f.StringVar(&d.Mode, name("mode"), d.Mode, "how to deliver events: "+strings.Join(audit.Modes(), ", "))
	b := &d.Batch
	f.IntVar(&b.BufferSize, name("batch-buffer-size"), b.BufferSize,
		"maximum number of events that wait in mode batch; more events are lost")
	f.IntVar(&b.MaxBatchSize, name("batch-max-size"), b.MaxBatchSize, "maximum number of events in a batch")
	f.DurationVar(&b.MaxBatchWait, name("batch-max-wait"), b.MaxBatchWait, "how long to wait until a batch is full")
	f.BoolVar(&b.ThrottleEnable, name("batch-throttle-enable"), b.ThrottleEnable, "limit the rate of batches")
	f.Float32Var(&b.ThrottleQPS, name("batch-throttle-qps"), b.ThrottleQPS, "average number of batches per second")
	f.IntVar(&b.ThrottleBurst, name("batch-throttle-burst"), b.ThrottleBurst,
		"maximum number of batches at once after a pause")
	f.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "truncate large events and split large batches")
	f.Int64Var(&d.Limits.MaxBatchSize, name("truncate-max-batch-size"), d.Limits.MaxBatchSize,
		"maximum size of a batch in bytes; larger batches are split")
	f.Int64Var(&d.Limits.MaxEventSize, name("truncate-max-event-size"), d.Limits.MaxEventSize,
		"maximum size of an event in bytes; larger events lose their request and response objects")
}

// Apply validates the flags, opens the audit trail and sets it in cfg.
func (o *Audit) Apply(cfg *controlplane.Config) error {
	if o.log != "" {
		if err := o.replaceLog(); err != nil {
			return errors.Join(err, o.Close())
		}
	}
	if o.cfg.PolicyFile == "" && (o.cfg.Log.Path != "" || o.cfg.Webhook.ConfigFile != "") {
		logger(cfg).Warn("audit records nothing: --audit-policy-file is not set")
	}
	if o.cfg.PolicyFile != "" && o.cfg.Log.Path == "" && o.cfg.Webhook.ConfigFile == "" {
		return errors.New("--audit-policy-file has no effect: set --audit-log-path or --audit-webhook-config-file")
	}
	if o.cfg.Log.Delivery.Mode == "" { // AddFlags was not called
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

// file returns the file with the log in JSON; "" if there is none.
func (o *Audit) file() string {
	switch {
	case o.log != "":
		return o.log
	case o.cfg.PolicyFile == "" || o.cfg.Log.Path == "-" || o.cfg.Log.Format != "json":
		return ""
	}
	return o.cfg.Log.Path
}

// Close flushes and closes the trail. Call it after the control plane has stopped.
func (o *Audit) Close() error {
	var removed error
	if o.policy != "" {
		removed = os.Remove(o.policy)
		o.policy = ""
	}
	if o.trail == nil {
		return removed
	}
	return errors.Join(o.trail.Close(), removed)
}

func logger(cfg *controlplane.Config) *slog.Logger {
	if cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return cfg.Log
}
