package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// logFlags are the flags of the log. Those with the prefix zap are the flags that
// controller-runtime defines for its logger; they have the same meaning.
type logFlags struct {
	level      *slog.Level // nil if no flag sets it
	usual      slog.Level  // the level if no flag sets it
	format     string      // text, json; empty if no flag sets it
	devel      bool        // the defaults of zap's development mode
	stackLevel *slog.Level // records from this level on have a stack trace; nil for none
	time       func(time.Time) slog.Value
}

func (f *logFlags) register(set *flag.FlagSet) {
	set.Func("v", "`level` of the log: 0 info, 1 debug, -1 warnings, -2 errors only", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("want an integer")
		}
		f.setVerbosity(n)
		return nil
	})
	set.Func("log-format", "`format` of the log: text (the default) or json", func(text string) error {
		if text != "text" && text != "json" {
			return errors.New("want text or json")
		}
		f.format = text
		return nil
	})
	set.BoolVar(&f.devel, "zap-devel", false, "log in text from the level debug on, unless other flags say otherwise")
	set.Func("zap-encoder", "`format` of the log: json or console", func(text string) error {
		format, ok := map[string]string{"json": "json", "console": "text"}[strings.ToLower(text)]
		if !ok {
			return errors.New("want json or console")
		}
		f.format = format
		return nil
	})
	set.Func("zap-log-level", "`level` of the log: debug, info, error, panic, or an integer as for -v",
		func(text string) error {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				f.setVerbosity(n)
				return nil
			}
			level, err := zapLevel(text, "debug")
			f.level = level
			return err
		})
	set.Func("zap-stacktrace-level", "`level` from which on records have a stack trace: info, error or panic; by default none has", func(text string) error {
		level, err := zapLevel(text)
		f.stackLevel = level
		return err
	})
	set.Func("zap-time-encoding", "`encoding` of times in the log: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano", func(text string) error {
		var ok bool
		if f.time, ok = timeEncodings[strings.ToLower(text)]; !ok {
			return errors.New("want epoch, millis, nano, iso8601, rfc3339 or rfc3339nano")
		}
		return nil
	})
}

func (f *logFlags) setVerbosity(n int) {
	level := slog.LevelInfo - slog.Level(4*n)
	f.level = &level
}

// levelPanic is the level of records before a panic. The library logs none.
const levelPanic = slog.LevelError + 4

// zapLevel returns the level with one of zap's names: info, error, panic or one of more.
func zapLevel(text string, more ...string) (*slog.Level, error) {
	names := append(more, "info", "error", "panic")
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "error": slog.LevelError,
		"panic": levelPanic}
	for _, name := range names {
		if strings.EqualFold(text, name) {
			level := levels[name]
			return &level, nil
		}
	}
	return nil, fmt.Errorf("want one of %s", strings.Join(names, ", "))
}

var timeEncodings = map[string]func(time.Time) slog.Value{
	"epoch":       func(t time.Time) slog.Value { return slog.Float64Value(float64(t.UnixNano()) / 1e9) },
	"millis":      func(t time.Time) slog.Value { return slog.Float64Value(float64(t.UnixNano()) / 1e6) },
	"nano":        func(t time.Time) slog.Value { return slog.Int64Value(t.UnixNano()) },
	"nanos":       func(t time.Time) slog.Value { return slog.Int64Value(t.UnixNano()) },
	"iso8601":     func(t time.Time) slog.Value { return slog.StringValue(t.Format("2006-01-02T15:04:05.000Z0700")) },
	"rfc3339":     func(t time.Time) slog.Value { return slog.StringValue(t.Format(time.RFC3339)) },
	"rfc3339nano": func(t time.Time) slog.Value { return slog.StringValue(t.Format(time.RFC3339Nano)) },
}

func (f *logFlags) minLevel() slog.Level {
	switch {
	case f.level != nil:
		return *f.level
	case f.devel:
		return min(slog.LevelDebug, f.usual)
	}
	return f.usual
}

// keepDefaults makes the values that were set before the command line is parsed the defaults.
func (f *logFlags) keepDefaults() {
	if f.level != nil {
		f.usual, f.level = *f.level, nil
	}
}

// logger returns the logger that the flags describe.
func (f *logFlags) logger(out io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.minLevel()}
	if f.time != nil {
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
				a.Value = f.time(a.Value.Time())
			}
			return a
		}
	}
	var h slog.Handler = slog.NewTextHandler(out, opts)
	if f.format == "json" {
		h = slog.NewJSONHandler(out, opts)
	}
	if f.stackLevel != nil {
		h = stackHandler{h, *f.stackLevel}
	}
	return slog.New(h)
}

// setDefaults makes log the logger of the packages slog and klog. Kubernetes' own packages log with
// klog.
func (f *logFlags) setDefaults(log *slog.Logger) {
	slog.SetDefault(log)
	klog.SetSlogLogger(log)
	var verbosity klog.Level
	// an integer is valid
	_ = verbosity.Set(strconv.Itoa(max(0, int(slog.LevelInfo-f.minLevel())/4)))
}

// stackHandler adds a stack trace to records from a level on.
type stackHandler struct {
	slog.Handler
	from slog.Level
}

func (h stackHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= h.from {
		r = r.Clone()
		r.AddAttrs(slog.String("stacktrace", stackFrom(r.PC)))
	}
	return h.Handler.Handle(ctx, r)
}

func (h stackHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stackHandler{h.Handler.WithAttrs(attrs), h.from}
}

func (h stackHandler) WithGroup(name string) slog.Handler {
	return stackHandler{h.Handler.WithGroup(name), h.from}
}

// stackFrom returns the calls of this goroutine, from the function that contains pc outwards; all
// calls if pc is not among them.
func stackFrom(pc uintptr) string {
	pcs := make([]uintptr, 64)
	pcs = pcs[:runtime.Callers(2, pcs)]
	for i := range pcs {
		if pcs[i] == pc {
			pcs = pcs[i:]
			break
		}
	}
	var b strings.Builder
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return strings.TrimSuffix(b.String(), "\n")
		}
	}
}
