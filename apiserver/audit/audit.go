// Package audit keeps the record of who asked for what, and what became of it.
//
// What is recorded, and how much of it, is said by a policy file; where it goes, by two backends: a log, in a file that is rotated,
// and a webhook that gets batches. Policy, events, formats and the webhook are Kubernetes' own; so is the meaning of each setting, which
// goes by the flag of kube-apiserver that is named beside it.
//
//	request ─ policy ─▶ event ─┬─ log: blocking, or batch ──▶ file.Write, rotation
//	                           └─ webhook: batch ───────────▶ POST EventList
//
// A [Trail] is made by [Open] and ends with Close, which sends what waits to be sent. The policy is read again when its file changes.
//
//	trail, err := audit.Open(audit.Config{PolicyFile: "policy.yaml", Log: audit.Log{Path: "audit.log"}})
//	chain.New(chain.Config{AuditPolicy: trail, AuditSink: trail, …})
package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	hookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"

	"kelson.dev/apiserver/internal/filewatch"
)

// Trail is the audit of a server: a policy, and the backends that get events. It is safe for concurrent use.
type Trail struct {
	policy  *filewatch.File[audit.PolicyRuleEvaluator]
	backend audit.Backend
	file    io.Closer // nil: there is none, or it is not ours to close
	stop    chan struct{}
}

var (
	_ audit.Sink                = (*Trail)(nil)
	_ audit.PolicyRuleEvaluator = (*Trail)(nil)
)

// Open returns the trail that cfg asks for, or nil if it asks for none: without a policy nothing is recorded, and without a backend
// nowhere.
func Open(cfg Config) (_ *Trail, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.PolicyFile == "" || cfg.Log.Path == "" && cfg.Webhook.ConfigFile == "" {
		return nil, nil
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Trail{stop: make(chan struct{})}
	defer func() {
		if err != nil && t.file != nil {
			t.file.Close()
		}
	}()
	t.policy, err = filewatch.Open(cfg.PolicyFile, parsePolicy, func(err error) { cfg.Logger.Error("the audit policy stays as it was", "err", err) })
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w", err)
	}
	var all []audit.Backend
	if cfg.Log.Path != "" {
		log, err := t.openLog(cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, log)
	}
	if cfg.Webhook.ConfigFile != "" {
		hook, err := newWebhook(cfg.Webhook)
		if err != nil {
			return nil, err
		}
		all = append(all, hook)
	}
	t.backend = audit.Union(all...)
	if err := t.backend.Run(t.stop); err != nil {
		return nil, fmt.Errorf("start audit: %w", err)
	}
	return t, nil
}

func parsePolicy(data []byte) (audit.PolicyRuleEvaluator, error) {
	p, err := policy.LoadPolicyFromBytes(data)
	if err != nil {
		return nil, err
	}
	return policy.NewPolicyRuleEvaluator(p), nil
}

func (t *Trail) openLog(cfg Config) (audit.Backend, error) {
	out := cfg.Stdout
	if cfg.Log.Path != "-" {
		file, err := openFile(cfg.Log, cfg.Logger)
		if err != nil {
			return nil, fmt.Errorf("open audit log: %w", err)
		}
		t.file, out = file, file
	}
	if out == nil {
		return nil, errors.New("open audit log: there is no standard output")
	}
	gv := auditv1.SchemeGroupVersion
	return cfg.Log.Delivery.around(auditlog.NewBackend(&whole{out: out, log: cfg.Logger}, cfg.Log.Format, gv), gv), nil
}

func newWebhook(cfg Webhook) (audit.Backend, error) {
	gv := auditv1.SchemeGroupVersion
	hook, err := webhook.NewBackend(cfg.ConfigFile, gv, hookutil.DefaultRetryBackoffWithInitialDelay(cfg.InitialBackoff), nil)
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	return cfg.Delivery.around(hook, gv), nil
}

// around puts batching and truncation before a backend.
func (d *Delivery) around(backend audit.Backend, gv schema.GroupVersion) audit.Backend {
	switch d.Mode {
	case ModeBlocking:
		backend = lenient{backend}
	case ModeBatch:
		backend = buffered.NewBackend(backend, d.Batch)
	}
	if d.Truncate {
		backend = truncate.NewBackend(backend, d.Limits, gv)
	}
	return backend
}

// lenient lets requests go on whose events could not be stored.
type lenient struct{ audit.Backend }

func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// EvaluatePolicyRule says how much of a request is recorded.
func (t *Trail) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	return t.policy.Get().EvaluatePolicyRule(attributes)
}

// ProcessEvents takes events; false: they could not be stored, and the mode demands it.
func (t *Trail) ProcessEvents(events ...*auditinternal.Event) bool {
	return t.backend.ProcessEvents(events...)
}

// Close sends what waits to be sent and closes the log. No request may be under way.
func (t *Trail) Close() error {
	close(t.stop)
	t.backend.Shutdown()
	if t.file != nil {
		return t.file.Close()
	}
	return nil
}
