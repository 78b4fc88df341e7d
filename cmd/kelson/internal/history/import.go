package history

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/history"
)

// importCommand returns kelson history import.
func importCommand() *cobra.Command {
	var file string
	var secrets bool
	var format output.Format
	c := &cobra.Command{
		Use:   "import FILE…",
		Short: "Write the versions in an audit log, or in a capture of k8shark, to a history",
		Long: `Write the versions in an audit log, or in a capture of k8shark, to a history.

An audit log has one JSON event per line. It contains the versions that clients
wrote only if the audit policy logs writes at the level RequestResponse, and the
versions that clients read only if it logs reads at that level. Pass all files of a
log that was rotated, in any order. The history lacks objects that were not written
while the log was kept. An audit log has no revisions of deletions; each deletion
gets the revision after the previous version.

A capture of k8shark is an archive (.kshrk), or the stream of records of kshrk
capture --out -. It contains the objects at each poll, and the events of watches.
Versions between two polls are missing, except those of watched resources. If a list
no longer contains an object, the history has a deletion at the list's revision.

The history omits values of Secrets, except with --secrets.`,
		Example: `  kelson history import audit.log audit-2026-11-23T10-00-00.log --out incident.history
  kelson history import capture.kshrk --out incident.history
  kelson history deployment/web --file incident.history`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			got, err := importFiles(progress, args, file, secrets)
			progress.Done()
			if err != nil {
				return err
			}
			if got.WithoutObject > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %d writes have no object: the audit policy does not log them at the level RequestResponse, or their clients asked for the metadata only\n", got.WithoutObject)
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(),
					map[string]any{"file": file, "versions": got.Versions, "deletions": got.Deletions,
						"withoutObject": got.WithoutObject})
			}
			fmt.Fprintf(c.OutOrStdout(), "imported %d versions and %d deletions to %s\n", got.Versions, got.Deletions,
				file)
			return nil
		},
	}
	c.Flags().StringVar(&file, "out", "", "file to create")
	c.Flags().BoolVar(&secrets, "secrets", false, "write the values of Secrets")
	_ = c.MarkFlagRequired("out") // the flag exists
	format.AddFlag(c)
	return c
}

// importFiles writes the versions of audit logs, or of one capture, to a new file.
func importFiles(progress *output.Progress, names []string, to string, secrets bool) (got history.Imported, err error) {
	var log history.AuditLog
	for _, name := range names {
		progress.Step("reading %s", name)
		f, err := os.Open(name)
		if err != nil {
			return got, err
		}
		defer f.Close()
		if history.IsCapture(f) {
			if len(names) > 1 {
				return got, fmt.Errorf("%s is a capture of k8shark: import it alone", name)
			}
			return create(to, func(w *history.Writer) (history.Imported, error) {
				info, err := f.Stat()
				if err != nil {
					return history.Imported{}, err
				}
				got, err := history.ImportCapture(w, f, info.Size(), secrets)
				if err == nil && got.Versions == 0 {
					err = errors.New("the capture has no versions of objects")
				}
				if err != nil {
					err = fmt.Errorf("import %s: %w", name, err)
				}
				return got, err
			})
		}
		if err := log.Read(f); err != nil {
			return got, fmt.Errorf("read %s: %w", name, err)
		}
	}
	progress.Step("writing %s", to)
	return create(to, func(w *history.Writer) (history.Imported, error) {
		got, err := log.Write(w, secrets)
		if err == nil && got.Versions == 0 {
			err = errors.New("the audit log has no versions of objects: its policy must log writes at the level RequestResponse")
		}
		return got, err
	})
}

// create creates the file of a history, and writes to it with write. It removes the file after an
// error.
func create(name string, write func(*history.Writer) (history.Imported, error)) (got history.Imported, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return got, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(name) // err already has the cause
		}
	}()
	w, err := history.NewWriter(f)
	if err != nil {
		return got, err
	}
	if got, err = write(w); err != nil {
		return got, err
	}
	return got, f.Sync()
}
