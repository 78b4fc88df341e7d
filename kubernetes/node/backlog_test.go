package node

// Fill makes the backlog busy for the rest of a test.
func (b *Backlog) Fill() { b.reports.Store(maxReports) }
