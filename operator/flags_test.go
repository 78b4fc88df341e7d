package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func noEnv(string) string { return "" }

// finish is a part that ends the operator at its start.
func finish(stop func()) Part {
	return BeforeStart(func(_ context.Context, deps Deps) error { stop(); return nil })
}

// Flags of the operator, a configuration that they change, and parts that depend on them.
func TestFlagsConfigureParts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var workers int
	var order []string
	parts := []Part{
		Flags(func(set *flag.FlagSet) { set.IntVar(&workers, "workers", 2, "`number` of workers") }),
		Configure(func(cfg *Config) error {
			order = append(order, "configure")
			if cfg.GracePeriod != 7*time.Second || workers != 9 {
				t.Errorf("in Configure: %v, %d workers", cfg.GracePeriod, workers)
			}
			cfg.REST = &rest.Config{Host: "http://changed.example"}
			return nil
		}),
		Parts(func(cfg *Config) ([]Part, error) {
			order = append(order, "parts")
			assert.Equalf(t, cfg.REST.Host, "http://changed.example", "Parts has %v", cfg.REST)
			return []Part{
				Configure(func(*Config) error { order = append(order, "inner configure"); return nil }),
				Setup(func(Deps) error { order = append(order, "setup"); return nil }),
				finish(func() { order = append(order, "before start"); cancel() }),
			}, nil
		}),
		Configure(func(*Config) error { order = append(order, "second configure"); return nil }),
	}
	var out bytes.Buffer
	if code := command(&out, noEnv, "--workers=9", "--graceful-shutdown-timeout=7s").run(ctx, parts); code != 0 {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	want := "configure, parts, second configure, inner configure, setup, before start"
	assert.Equalf(t, strings.Join(order, ", "), want, "order")
	assert.Containsf(t, out.String(), "server=http://changed.example", "log")

	// Run parses no command line: the flag has its default value.
	workers = 0
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	if err := Run(ctx, Config{REST: &rest.Config{Host: "http://a.example"}, Log: slog.New(slog.DiscardHandler)}, parts[0], finish(cancel)); err != nil || workers != 2 {
		t.Errorf("with Run: %v, %d workers", err, workers)
	}
}

// Errors of the parts end the program before anything starts.
func TestPartsWithErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		part Part
		want string
	}{
		"configure": {Configure(func(*Config) error { return errTest }), "a test's error"},
		"parts":     {Parts(func(*Config) ([]Part, error) { return nil, errTest }), "a test's error"},
		"late flags": {Parts(func(*Config) ([]Part, error) {
			return []Part{Flags(func(*flag.FlagSet) {})}, nil
		}), "the command line is already parsed"},
		"before start": {BeforeStart(func(context.Context, Deps) error { return errTest }), "a test's error"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			config := Configure(func(cfg *Config) error { cfg.REST = &rest.Config{Host: "http://a.example"}; return nil })
			if code := command(&out, noEnv).run(t.Context(), []Part{config, tt.part}); code != 1 || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%d, %s", code, out.String())
			}
		})
	}
}

type testError string

func (e testError) Error() string { return string(e) }

const errTest = testError("a test's error")

// parsed returns the flags of a command line.
func parsed(t *testing.T, args string, more ...func(*flag.FlagSet)) *flags {
	t.Helper()
	f := &flags{}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(t.Output())
	require.NoError(t, f.parse(set, append([]string{"test"}, strings.Fields(args)...), more))
	return f
}

// A flag of another package with the same name as one of Main's flags, such as klog's -v, sets
// both.
func TestFlagsOfOthers(t *testing.T) {
	before := klog.V(5).Enabled()
	t.Cleanup(func() { _ = new(klog.Level).Set("0") })
	f := parsed(t, "-v=5 --vmodule=x=1", klog.InitFlags)
	if before || !klog.V(5).Enabled() || f.log.minLevel() != slog.LevelInfo-20 {
		t.Errorf("klog's level 5: %v before, %v after; ours is %v", before, klog.V(5).Enabled(), f.log.minLevel())
	}
	var address string
	var elect bool
	theirs := func(set *flag.FlagSet) {
		set.StringVar(&address, "health-probe-bind-address", ":8081", "the address of the probes")
		set.BoolVar(&elect, "leader-elect", false, "elect a leader")
	}
	if f = parsed(t, "--leader-elect", theirs); f.health != ":8081" || !f.elect || !elect {
		t.Errorf("their default, and a boolean: %q, %v, %v", f.health, f.elect, elect)
	}
	if f = parsed(t, "--health-probe-bind-address=:1", theirs); f.health != ":1" || address != ":1" {
		t.Errorf("%q, %q", f.health, address)
	}
	for args, want := range map[string]slog.Level{"": slog.LevelInfo, "--zap-devel": slog.LevelDebug, "--zap-devel -v=0": slog.LevelInfo, "-v=2": slog.LevelInfo - 8} {
		_ = new(klog.Level).Set("0") // the default of klog's flag is the current value
		f = parsed(t, args, klog.InitFlags)
		assert.Equalf(t, f.log.minLevel(), want, "%q with klog's flags: level", args)
	}
	verbose := func(set *flag.FlagSet) { set.Int("v", 2, "the level of the log") }
	for args, want := range map[string]slog.Level{"": slog.LevelInfo - 8, "--zap-devel": slog.LevelInfo - 8, "-v=0": slog.LevelInfo} {
		f = parsed(t, args, verbose)
		assert.Equalf(t, f.log.minLevel(), want, "%q with their default: level", args)
	}
	wrong := func(set *flag.FlagSet) { set.String("graceful-shutdown-timeout", "soon", "") }
	var out bytes.Buffer
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(&out)
	if err := (&flags{}).parse(set, []string{"test"}, []func(*flag.FlagSet){wrong}); err == nil || !strings.Contains(out.String(), `default value "soon" of flag -graceful-shutdown-timeout`) {
		t.Errorf("%v, %s", err, out.String())
	}
}

// The flags of controller-runtime's zap logger, and -v.
func TestLogFlags(t *testing.T) {
	tests := []struct {
		args  string
		level slog.Level
		want  string // in the log of an error
	}{
		{"", slog.LevelInfo, "level=ERROR msg=broken"},
		{"-v=1", slog.LevelDebug, "level=ERROR"},
		{"-v=-2", slog.LevelError, "level=ERROR"},
		{"--zap-devel", slog.LevelDebug, "level=ERROR"},
		{"--zap-devel --zap-log-level=error --zap-encoder=json", slog.LevelError, `"level":"ERROR"`},
		{"--zap-devel=false --zap-encoder=console", slog.LevelInfo, "level=ERROR"},
		{"--zap-log-level=debug --log-format=json", slog.LevelDebug, `"msg":"broken"`},
		{"--zap-log-level=2", slog.LevelInfo - 8, "level=ERROR"},
		{"--zap-stacktrace-level=error", slog.LevelInfo, "TestLogFlags"},
		{"--zap-time-encoding=epoch", slog.LevelInfo, "time=1."},
		{"--zap-time-encoding=nano --zap-encoder=json", slog.LevelInfo, `"time":1`},
		{"--zap-time-encoding=rfc3339", slog.LevelInfo, "time=20"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var out bytes.Buffer
			log := parsed(t, tt.args).log.logger(&out)
			for level := slog.LevelDebug - 8; level <= slog.LevelError; level++ {
				got := log.Enabled(t.Context(), level)
				assert.Equalf(t, got, level >= tt.level, "level %v: enabled", level)
			}
			log.With("a", 1).WithGroup("g").Error("broken", "b", 2)
			assert.Contains(t, out.String(), tt.want)
			if strings.Contains(tt.args, "json") && !json.Valid(out.Bytes()) {
				t.Errorf("not JSON: %s", out.String())
			}
		})
	}
	for _, args := range []string{"-v=loud", "--zap-encoder=xml", "--zap-log-level=loud", "--zap-log-level=-1", "--zap-stacktrace-level=debug", "--zap-time-encoding=sundial"} {
		var out bytes.Buffer
		if code := command(&out, noEnv, args).run(t.Context(), nil); code != 2 || !strings.Contains(out.String(), "invalid value") {
			t.Errorf("%s: %d, %s", args, code, out.String())
		}
	}
}

// Without a kubeconfig, functions of Configure get an empty rest.Config. They can complete it;
// otherwise the program ends with the reason why there is no API server.
func TestConfigureWithoutServer(t *testing.T) {
	user := func(cfg *Config) error { cfg.REST.Impersonate.UserName = "jane"; return nil }
	host := func(cfg *Config) error { cfg.REST.Host = "http://a.example"; return nil }
	copied := func(cfg *Config) error { cfg.REST = rest.CopyConfig(cfg.REST); return nil }
	none := func(cfg *Config) error { cfg.REST = nil; return nil }
	for name, tt := range map[string]struct {
		change func(*Config) error
		code   int
		want   string
	}{
		"user":   {user, 1, `msg="find API server" err="stat /does/not/exist`},
		"copied": {copied, 1, `msg="find API server"`},
		"none":   {none, 1, `msg="find API server"`},
		"host":   {host, 0, "server=http://a.example"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out bytes.Buffer
			parts := []Part{Configure(tt.change), BeforeStart(func(context.Context, Deps) error { cancel(); return nil })}
			if code := command(&out, noEnv, "--kubeconfig=/does/not/exist").run(ctx, parts); code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d: %s", code, out.String())
			}
		})
	}
}
