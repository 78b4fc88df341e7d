package serve

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/internal/assert"
)

// Flags that have no effect in combination with the other flags are errors.
func TestFlagsWithoutEffect(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a server that starts in spite of the flags ends immediately
	for _, test := range []struct{ args, want string }{
		// the default, but given
		{"--etcd-prefix=/registry", "--etcd-prefix has no effect without --etcd-servers"},
		{"--etcd-timeout=3s", "--etcd-timeout has no effect without --etcd-servers"},
		{"--etcd-cafile=f", "--etcd-cafile has no effect without --etcd-servers"},
		{"--in-memory --etcd-compaction-interval=0", "--etcd-compaction-interval has no effect without --etcd-servers"},
		{"--etcd-certfile=f --etcd-keyfile=f", "--etcd-certfile has no effect without --etcd-servers"},
		{"--etcd-servers=http://127.0.0.1:1 --etcd-timeout=0", "--etcd-timeout 0s: must be positive"},
		{"--in-memory --unsafe-no-sync", "--in-memory and --unsafe-no-sync cannot be used together"},
		{"--unsafe-no-sync --etcd-servers=http://127.0.0.1:1",
			"--unsafe-no-sync and --etcd-servers cannot be used together"},
		{"--in-memory --etcd-servers=http://127.0.0.1:1", "--in-memory and --etcd-servers cannot be used together"},
		{"--in-memory --planes-idle=1h", "--planes-idle has no effect without --planes"},
		{"--in-memory --planes=0 --planes-idle=10m", "--planes-idle has no effect without --planes"},
	} {
		c := Command()
		c.SetArgs(append(strings.Fields(test.args), "--secure-port=0"))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(ctx); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("kelson serve %s: %v, want %q", test.args, err, test.want)
		}
	}
	var unset, set stateOptions
	if err := unset.check(); err != nil { // as of kelson dev, without flags
		t.Error(err)
	}
	set.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	assert.NoError(t, set.check())
}
