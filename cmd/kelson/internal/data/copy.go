package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/cmd/kelson/internal/output"
)

func copyCommand() *cobra.Command {
	var cluster flags.Etcd
	var encryption flags.Encryption
	var format output.Format
	c := &cobra.Command{
		Use:   "copy [DIRECTORY] --etcd-servers URL,…",
		Short: "Copy the state of a data directory to an etcd cluster",
		Long: `Copy the state of a data directory to an etcd cluster.

No server may be using the directory or the prefix in etcd, which must be empty.
Afterwards, kelson serve with the same directory and --etcd-servers continues with
the same objects, uids and keys: certificates, tokens and kubeconfigs stay valid.

Objects keep their uids and the order of their last changes: the command writes one
after the other, each at a new revision of its own. These are above the revisions of
the directory, so that clients that know an earlier revision list again. For this,
the copy first raises etcd's revision to that of the directory, with one write per
revision, and at the end removes etcd's history.

With --encryption-provider-config, the command decrypts what it reads, and
encrypts what it writes with the first provider of each resource. Without it,
etcd gets plain text, and encrypted values are an error.

The command reads everything back and compares it. If it is interrupted, etcd is
marked as incomplete: servers refuse to use it, and the next copy starts again. The
directory is not changed.`,
		Example: `  kelson data copy ./state --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(cluster.Servers) == 0 {
				return errors.New("pass --etcd-servers")
			}
			if err := cluster.Check(); err != nil {
				return err
			}
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			progress.Step("reading %s", dataDir(args))
			records, revision, err := readInOrder(dataDir(args), &encryption)
			if err != nil {
				return err
			}
			progress.Step("copying %d objects to etcd", len(records))
			now, err := copyTo(c.Context(), &cluster, &encryption, records, revision, progress)
			if err != nil {
				return fmt.Errorf("copy to etcd: %w", err)
			}
			progress.Done()
			if format != output.Text {
				return format.Print(c.OutOrStdout(),
					map[string]any{"objects": len(records), "from": revision, "revision": now})
			}
			fmt.Fprintf(c.OutOrStdout(), "copied %d objects at revision %d to etcd, now at revision %d\n", len(records),
				revision, now)
			return nil
		},
	}
	cluster.AddFlags(c.Flags(), "URLs of the members of the etcd cluster")
	encryption.AddFlags(c.Flags())
	format.AddFlag(c)
	return c
}

// readInOrder returns the objects of a data directory in the order of their revisions, and the
// revision of the state.
func readInOrder(dir string, encryption *flags.Encryption) (records []store.Record, revision uint64, err error) {
	report, err := readDirectory(dir, encryption, func(r store.Record) { records = append(records, r) })
	if err != nil {
		return nil, 0, err
	}
	if report.Missing() > 0 {
		return nil, 0, fmt.Errorf("%s: acknowledged writes are missing: %s", dir, report)
	}
	slices.SortFunc(records, func(a, b store.Record) int { return cmp.Compare(a.Revision, b.Revision) })
	return records, report.Revision, nil
}

// copyTo writes records to etcd, one revision each, then reads etcd and compares. It returns etcd's
// revision. It first writes to notes if that takes long.
func copyTo(ctx context.Context, cluster *flags.Etcd, encryption *flags.Encryption, records []store.Record,
	revision uint64, notes io.Writer) (now uint64, err error) {
	// gRPC warns through klog when it closes connections. The command returns all errors.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	log, err := cluster.Open(ctx, nil) // it removes no history
	if err != nil {
		return 0, err
	}
	shared, err := encryption.WrapShared(log, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	if now, err = log.Current(ctx); err != nil {
		return 0, err
	}
	fmt.Fprint(notes, RaiseNote(now, revision))
	err = log.Fill(ctx, revision, func() error {
		for _, r := range records {
			_, ok, err := shared.Commit(ctx, []store.Op{{Key: r.Key, Data: r.Data}})
			if err == nil && !ok {
				err = errors.New("another process wrote it")
			}
			if err != nil {
				return fmt.Errorf("%v: %w", r.Key, err)
			}
		}
		now, err = compare(ctx, shared, records)
		return err
	})
	if errors.Is(err, etcd.ErrNotEmpty) {
		err = fmt.Errorf("%w: choose another --etcd-prefix, or remove them with etcdctl del --prefix", err)
	}
	return now, err
}

// raisedPerSecond is about how many revisions a second a cluster on one machine can be raised by.
const raisedPerSecond = 5000

// RaiseNote returns a note if it takes more than a minute to raise the revision of etcd from now to
// that of the directory; otherwise "".
func RaiseNote(now, revision uint64) string {
	if revision <= now || revision-now <= 60*raisedPerSecond {
		return ""
	}
	writes := revision - now
	seconds := writes / raisedPerSecond
	return fmt.Sprintf(`note: etcd is at revision %d and the directory at %d, so the copy begins with %d writes. At %d a second, they take %dh%02dm.
note: to avoid them, restore a snapshot of the empty cluster with etcdutl snapshot restore --bump-revision=%d --mark-compacted, and copy then
`, now, revision, writes, raisedPerSecond, seconds/3600, seconds/60%60, revision)
}

// compare reads etcd and returns its revision, or an error if it does not have exactly the records,
// in their order.
func compare(ctx context.Context, shared store.Shared, records []store.Record) (revision uint64, err error) {
	var found []store.Record
	revision, err = shared.Load(ctx, func(r store.Record) error {
		found = append(found, r)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if len(found) != len(records) {
		return 0, fmt.Errorf("etcd has %d objects, want %d", len(found), len(records))
	}
	slices.SortFunc(found, func(a, b store.Record) int { return cmp.Compare(a.Revision, b.Revision) })
	for i, r := range found {
		if want := records[i]; r.Key != want.Key || !bytes.Equal(r.Data, want.Data) {
			return 0, fmt.Errorf("etcd differs at %v: another process writes to it", want.Key)
		}
	}
	return revision, nil
}
