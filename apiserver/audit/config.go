package audit

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// Config says what is recorded and where. Begin with [Defaults].
type Config struct {
	// PolicyFile is a Policy of audit.k8s.io (--audit-policy-file); "": nothing is recorded.
	PolicyFile string
	Log        Log
	Webhook    Webhook
	// Stdout is where the log goes whose path is "-".
	Stdout io.Writer
	// Logger receives what goes wrong while the trail is in use: a changed policy that can't be used, a log that can't be written. nil discards it.
	Logger *slog.Logger
}

// Log is the backend that writes to a file (--audit-log-*).
type Log struct {
	// Path is the file, "-" for Config.Stdout; "": there is no log.
	Path string
	// Format is json, or legacy for a line of text.
	Format string
	// MaxSize is how many megabytes a file gets before it is rotated; 0: any. MaxBackups and MaxAge (in days) are how many old
	// files are kept and for how long; 0: all, and for ever. Compress makes old files gzip.
	MaxSize, MaxBackups, MaxAge int
	Compress                    bool
	Delivery                    Delivery
}

// Webhook is the backend that sends to a server (--audit-webhook-*).
type Webhook struct {
	// ConfigFile is a kubeconfig; "": there is no webhook.
	ConfigFile string
	// InitialBackoff is how long it waits before it tries a failed request again, the first time.
	InitialBackoff time.Duration
	Delivery       Delivery
}

// Delivery is how a backend gets events.
type Delivery struct {
	Mode  string
	Batch buffered.BatchConfig
	// Truncate cuts large events and batches by Limits.
	Truncate bool
	Limits   truncate.Config
}

// Modes of delivery.
const (
	// ModeBatch buffers events; a full buffer loses them.
	ModeBatch = "batch"
	// ModeBlocking lets requests wait until their events are stored.
	ModeBlocking = "blocking"
	// ModeBlockingStrict also refuses a request whose arrival could not be stored.
	ModeBlockingStrict = "blocking-strict"
)

// Modes are the known modes.
func Modes() []string { return []string{ModeBatch, ModeBlocking, ModeBlockingStrict} }

// Formats are the known formats of logs.
func Formats() []string { return slices.Clone(auditlog.AllowedFormats) }

// Defaults are kube-apiserver's: a log blocks, a webhook gets batches.
func Defaults() Config {
	const buffer = 10_000
	limits := truncate.Config{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	return Config{
		Log: Log{
			Format: auditlog.FormatJson, MaxSize: 100, MaxBackups: 100, MaxAge: 366,
			Delivery: Delivery{Mode: ModeBlocking, Limits: limits, Batch: buffered.BatchConfig{BufferSize: buffer, MaxBatchSize: 1}},
		},
		Webhook: Webhook{
			InitialBackoff: webhook.DefaultInitialBackoffDelay,
			Delivery: Delivery{Mode: ModeBatch, Limits: limits, Batch: buffered.BatchConfig{
				BufferSize: buffer, MaxBatchSize: 400, MaxBatchWait: 30 * time.Second,
				ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15, AsyncDelegate: true,
			}},
		},
	}
}

// check finds what does not make sense, in backends that are used.
func (cfg *Config) check() error {
	if l := &cfg.Log; l.Path != "" {
		if !slices.Contains(Formats(), l.Format) {
			return fmt.Errorf("invalid audit log format %s, allowed formats are %q", l.Format, strings.Join(Formats(), ","))
		}
		for _, limit := range []struct {
			flag  string
			value int
		}{{"maxage", l.MaxAge}, {"maxbackup", l.MaxBackups}, {"maxsize", l.MaxSize}} {
			if limit.value < 0 {
				return fmt.Errorf("--audit-log-%s %v can't be a negative number", limit.flag, limit.value)
			}
		}
		if err := l.Delivery.check("log"); err != nil {
			return err
		}
	}
	if cfg.Webhook.ConfigFile != "" {
		return cfg.Webhook.Delivery.check("webhook")
	}
	return nil
}

func (d *Delivery) check(plugin string) error {
	if !slices.Contains(Modes(), d.Mode) {
		return fmt.Errorf("invalid audit %s mode %s, allowed modes are %q", plugin, d.Mode, strings.Join(Modes(), ","))
	}
	if d.Limits.MaxEventSize <= 0 {
		return fmt.Errorf("invalid audit truncate %s max event size %v, must be a positive number", plugin, d.Limits.MaxEventSize)
	}
	if d.Limits.MaxBatchSize < d.Limits.MaxEventSize {
		return fmt.Errorf("invalid audit truncate %s max batch size %v, must be greater than max event size (%v)",
			plugin, d.Limits.MaxBatchSize, d.Limits.MaxEventSize)
	}
	if d.Mode != ModeBatch {
		return nil
	}
	positive := func(what string, ok bool, value any) error {
		if ok {
			return nil
		}
		return fmt.Errorf("invalid audit batch %s %s %v, must be a positive number", plugin, what, value)
	}
	b := &d.Batch
	if err := positive("buffer size", b.BufferSize > 0, b.BufferSize); err != nil {
		return err
	}
	if err := positive("max batch size", b.MaxBatchSize > 0, b.MaxBatchSize); err != nil {
		return err
	}
	if !b.ThrottleEnable {
		return nil
	}
	if err := positive("throttle QPS", b.ThrottleQPS > 0, b.ThrottleQPS); err != nil {
		return err
	}
	return positive("throttle burst", b.ThrottleBurst > 0, b.ThrottleBurst)
}
