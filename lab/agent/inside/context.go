package inside

import "context"

// cancelWith cancels the stream when the context of its request ends.
func (s *stream) cancelWith(ctx context.Context) {
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { s.cancel(ctx.Err()) })
	s.mu.Lock()
	s.stop = func() { stop() }
	s.mu.Unlock()
}
