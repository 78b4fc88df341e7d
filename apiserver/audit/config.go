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

// Config selects the requests to record and the destinations of the records. Start with [Defaults].
type Config struct {
	// PolicyFile is a file with a Policy of audit.k8s.io (--audit-policy-file). "" records nothing.
	PolicyFile string
	Log        Log
	Webhook    Webhook
	// Stdout is the destination of a log with path "-".
	Stdout io.Writer
	// Logger receives errors while the trail is in use: a changed policy that is invalid, or a log
	// that cannot be written. nil discards them.
	Logger *slog.Logger
}

// Log is the backend that writes to a file (--audit-log-*).
type Log struct {
	// Path is the file; "-" means Config.Stdout, "" disables the log.
	Path string
	// Format is json, or legacy for lines of text.
	Format string
	// MaxSize is the size in megabytes at which a file is rotated; 0 means no limit. MaxBackups and
	// MaxAge (in days) limit the number and age of rotated files; 0 means no limit. Compress
	// compresses rotated files with gzip.
	MaxSize, MaxBackups, MaxAge int
	Compress                    bool
	Delivery                    Delivery
}

// Webhook is the backend that sends to a server (--audit-webhook-*).
type Webhook struct {
	// ConfigFile is a kubeconfig; "" disables the webhook.
	ConfigFile string
	// InitialBackoff is the time before the first retry of a failed request.
	InitialBackoff time.Duration
	Delivery       Delivery
}

// Delivery configures how a backend receives events.
type Delivery struct {
	Mode  string
	Batch buffered.BatchConfig
	// Truncate truncates large events and splits large batches according to Limits.
	Truncate bool
	Limits   truncate.Config
}

// Modes of delivery.
const (
	// ModeBatch buffers events and drops them if the buffer is full.
	ModeBatch = "batch"
	// ModeBlocking makes requests wait until their events are stored.
	ModeBlocking = "blocking"
	// ModeBlockingStrict also rejects a request if its first event cannot be stored.
	ModeBlockingStrict = "blocking-strict"
)

// Modes returns the supported modes.
func Modes() []string { return []string{ModeBatch, ModeBlocking, ModeBlockingStrict} }

// Formats returns the supported formats of logs.
func Formats() []string { return slices.Clone(auditlog.AllowedFormats) }

// Defaults returns the defaults of kube-apiserver: the log is blocking, the webhook receives
// batches.
func Defaults() Config {
	const buffer = 10_000
	limits := truncate.Config{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	return Config{
		Log: Log{
			Format: auditlog.FormatJson, MaxSize: 100, MaxBackups: 100, MaxAge: 366,
			Delivery: Delivery{Mode: ModeBlocking, Limits: limits,
				Batch: buffered.BatchConfig{BufferSize: buffer, MaxBatchSize: 1}},
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

// check validates the settings of the enabled backends.
func (cfg *Config) check() error {
	if l := &cfg.Log; l.Path != "" {
		if !slices.Contains(Formats(), l.Format) {
			return fmt.Errorf("invalid audit log format %s, allowed formats are %q", l.Format,
				strings.Join(Formats(), ","))
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
		return fmt.Errorf("invalid audit truncate %s max event size %v, must be a positive number", plugin,
			d.Limits.MaxEventSize)
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
