// Package audit records the requests to a server and their results.
//
// A policy file selects which requests to record and at which level. Two backends store the events:
// a log in a file with rotation, and a webhook that receives batches. Policy, events, formats and
// the webhook are Kubernetes' own. Each setting has the meaning of the kube-apiserver flag named in
// its comment.
//
//	request ─ policy ─▶ event ─┬─ log: blocking, or batch ──▶ file.Write, rotation
//	                           └─ webhook: batch ───────────▶ POST EventList
//
// [Open] returns a [Trail]. Its Close sends the buffered events. The policy is reloaded when its
// file changes.
//
//	trail, err := audit.Open(audit.Config{PolicyFile: "policy.yaml", Log: audit.Log{Path: "audit.log"}})
//	filters.New(filters.Config{AuditPolicy: trail, AuditSink: trail, …})
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"

	"kelson.dev/apiserver/internal/filewatch"
)

// Trail is the audit trail of a server: a policy, and the backends that receive events. It is safe
// for concurrent use.
type Trail struct {
	policy  *filewatch.File[audit.PolicyRuleEvaluator]
	backend audit.Backend
	file    io.Closer // nil: no log, or it goes to standard output
	stop    chan struct{}
	giveUp  context.CancelFunc // ends the requests to the webhook
}

var (
	_ audit.Sink                = (*Trail)(nil)
	_ audit.PolicyRuleEvaluator = (*Trail)(nil)
)

// Open returns the trail of cfg. It returns nil if cfg has no policy or no backend.
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
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trail{stop: make(chan struct{}), giveUp: cancel}
	defer func() {
		if err == nil {
			return
		}
		cancel()
		if t.file != nil {
			t.file.Close()
		}
	}()
	t.policy, err = filewatch.Open(cfg.PolicyFile, parsePolicy, func(err error) {
		cfg.Logger.Error("reload audit policy: keeping the previous one", "err", err)
	})
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
		hook, err := newHook(ctx, cfg.Webhook, cfg.Logger)
		if err != nil {
			return nil, fmt.Errorf("initializing audit webhook: %w", err)
		}
		all = append(all, cfg.Webhook.Delivery.wrap(hook, cfg.Logger))
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
		return nil, errors.New("open audit log: path is \"-\" but Config.Stdout is nil")
	}
	writer := &serialWriter{out: out, losses: losses{of: "audit log", log: cfg.Logger}}
	return cfg.Log.Delivery.wrap(auditlog.NewBackend(writer, cfg.Log.Format, auditv1.SchemeGroupVersion), cfg.Logger),
		nil
}

// wrap adds batching and truncation to a backend.
func (d *Delivery) wrap(backend audit.Backend, log *slog.Logger) audit.Backend {
	switch d.Mode {
	case ModeBlocking:
		backend = lenient{backend}
	case ModeBatch:
		backend = newPending(backend, d.Batch, maxPending, log)
	}
	if d.Truncate {
		backend = truncate.NewBackend(backend, d.Limits, auditv1.SchemeGroupVersion)
	}
	return backend
}

// lenient reports success for events that could not be stored, so that their requests continue.
type lenient struct{ audit.Backend }

func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// EvaluatePolicyRule returns how to record a request. It implements audit.PolicyRuleEvaluator.
func (t *Trail) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	return t.policy.Get().EvaluatePolicyRule(attributes)
}

// ProcessEvents passes events to the backends. It returns false if they could not be stored and the
// mode is ModeBlockingStrict. It implements audit.Sink.
func (t *Trail) ProcessEvents(events ...*auditinternal.Event) bool {
	return t.backend.ProcessEvents(events...)
}

// patience is how long Close waits for the webhook.
const patience = 10 * time.Second

// Close sends the buffered events and closes the log. Events that a webhook does not accept within
// ten seconds are lost. No requests may be in flight.
func (t *Trail) Close() error {
	defer time.AfterFunc(patience, t.giveUp).Stop()
	close(t.stop)
	t.backend.Shutdown()
	t.giveUp()
	if t.file != nil {
		return t.file.Close()
	}
	return nil
}
