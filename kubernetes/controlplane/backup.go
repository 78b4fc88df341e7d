package controlplane

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

// BackupPath is the path that serves a backup of the whole state to authorized users.
const BackupPath = "/kelson/backup"

// backup writes the state at the time of the request as an archive (package archive). Writes
// continue meanwhile.
func backup(st *store.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
			return
		}
		sn := st.Snapshot()
		for r := range sn.Records() {
			if err := r.Unreadable(); err != nil { // a restored state would lack the object
				http.Error(w, "backup: "+err.Error(), http.StatusInternalServerError)
				return
			}
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Kelson-Revision", strconv.FormatUint(sn.Revision(), 10))
		// A large backup takes longer than the write deadline of other requests. When the client
		// disconnects, the next write fails and ends the backup.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		if err := archive.Write(context.WithoutCancel(req.Context()), w, sn.Revision(), sn.Records()); err != nil {
			panic(http.ErrAbortHandler) // the client must see that the backup is incomplete
		}
	})
}
