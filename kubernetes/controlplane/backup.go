package controlplane

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

// BackupPath is where the whole state can be read, by whom the authorizer lets.
const BackupPath = "/kelson/backup"

// backup answers with the state as it is when the request comes (package archive). Writes go on meanwhile.
func backup(st *store.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
			return
		}
		sn := st.Snapshot()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Kelson-Revision", strconv.FormatUint(sn.Revision(), 10))
		// A large state takes longer than other requests may; a client that is gone ends it by the failing write.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		if err := archive.Write(context.WithoutCancel(req.Context()), w, sn.Revision(), sn.Records()); err != nil {
			panic(http.ErrAbortHandler) // the client must see that it is not whole
		}
	})
}
