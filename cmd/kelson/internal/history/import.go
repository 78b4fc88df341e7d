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
		Use:   "import AUDIT-LOG…",
		Short: "Write the versions in an audit log of any cluster to a history",
		Long: `Write the versions in an audit log of any cluster to a history.

An audit log has one JSON event per line. It contains the versions that clients
wrote only if the audit policy logs writes at the level RequestResponse, and the
versions that clients read only if it logs reads at that level. Pass all files of a
log that was rotated, in any order. The history lacks objects that were not written
while the log was kept. An audit log has no revisions of deletions; each deletion
gets the revision after the previous version.

The history omits values of Secrets, except with --secrets.`,
		Example: `  kelson history import audit.log audit-2026-11-23T10-00-00.log --out incident.history
  kelson history deployment/web --file incident.history`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var log history.AuditLog
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			for _, name := range args {
				progress.Step("reading %s", name)
				if err := readAuditLog(&log, name); err != nil {
					return err
				}
			}
			progress.Step("writing %s", file)
			got, err := writeAuditLog(&log, file, secrets)
			progress.Done()
			if err != nil {
				return err
			}
			if got.Without > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "warning: %d writes have no object: the audit policy does not log them at the level RequestResponse\n", got.Without)
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), map[string]any{"file": file, "versions": got.Versions, "deletions": got.Deletions, "without": got.Without})
			}
			fmt.Fprintf(c.OutOrStdout(), "imported %d versions and %d deletions to %s\n", got.Versions, got.Deletions, file)
			return nil
		},
	}
	c.Flags().StringVar(&file, "out", "", "file to create")
	c.Flags().BoolVar(&secrets, "secrets", false, "write the values of Secrets")
	c.MarkFlagRequired("out")
	format.AddFlag(c)
	return c
}

func readAuditLog(log *history.AuditLog, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := log.Read(f); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// writeAuditLog creates the file. It removes the file after an error.
func writeAuditLog(log *history.AuditLog, name string, secrets bool) (got history.Imported, err error) {
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
	if got, err = log.Write(w, secrets); err != nil {
		return got, err
	}
	if got.Versions == 0 {
		return got, errors.New("the audit log has no versions of objects: its policy must log writes at the level RequestResponse")
	}
	return got, f.Sync()
}
