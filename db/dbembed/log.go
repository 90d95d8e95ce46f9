package dbembed

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxLogSize is when the server's log is put aside at the next start; the one before is kept as postgres.log.1.
const maxLogSize = 10 << 20

// openLog opens the server's log for appending and returns where this run's part begins.
func openLog(path string) (*os.File, int64, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, fmt.Errorf("rotate the server's log: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // below the data directory, which is the operator's
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	return file, info.Size(), nil
}

// logSince returns the last lines that the server wrote after offset, for an error message.
func logSince(path string, offset int64) string {
	file, err := os.Open(path) //nolint:gosec // below the data directory, which is the operator's
	if err != nil {
		return "(its log cannot be read: " + err.Error() + ")"
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<20))
	if err != nil {
		return "(its log cannot be read: " + err.Error() + ")"
	}
	return path + " ends with:\n" + lastLines(content, 10)
}

func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
