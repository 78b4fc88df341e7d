package internal_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"kelson.dev/apiserver/serving/klogs"
)

// The lines of klog have the format and the level of the server's log.
func TestRoute(t *testing.T) {
	var log bytes.Buffer
	h := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	defer klog.ClearLogger()
	write := func() string {
		log.Reset()
		klog.Infof("listed %d", 1)
		klog.Warningf("slow: [%s] took %d", "a] b", 2)
		klog.Errorf("two\nlines")
		klog.InfoS("Listed", "count", 1)
		klog.ErrorS(errors.New("broken"), "List failed", "pod", klog.KRef("ns", "web"))
		klog.Background().WithValues("a", 1).WithName("watcher").Error(errors.New("broken"), "Watch failed")
		klog.FromContext(t.Context()).Info("Watched")
		klog.V(1).Info("not written")
		return log.String()
	}
	all := []string{
		`level=INFO msg="listed 1"`,
		`level=WARN msg="slow: [a] b] took 2"`,
		`level=ERROR msg="two\nlines"`,
		`level=INFO msg=Listed count=1`,
		`level=ERROR msg="List failed" err=broken pod.name=web pod.namespace=ns`,
		`level=ERROR msg="Watch failed" a=1 logger=watcher err=broken`,
		`level=INFO msg=Watched`,
	}
	klogs.Route(h)
	if got, want := write(), strings.Join(all, "\n")+"\n"; got != want {
		t.Errorf("all lines:\n%s\nwant\n%s", got, want)
	}
	klogs.Route(klogs.Warnings(h))
	if got, want := write(), strings.Join([]string{all[1], all[2], all[4], all[5]}, "\n")+"\n"; got != want {
		t.Errorf("warnings and errors:\n%s\nwant\n%s", got, want)
	}
}
