package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// processStat reads the parent of a process, its CPU seconds, and those of the children it has waited for. Linux counts in hundredths of a second.
func processStat(pid int) (parent int, own, reaped float64, err error) {
	if runtime.GOOS != "linux" {
		return 0, 0, 0, errors.ErrUnsupported
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	// The name is in parentheses and may hold any, so fields count from the last one on: state, parent, …
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	var n [5]float64
	for i, field := range []int{1, 11, 12, 13, 14} { // parent, user, system, children's user, children's system
		if n[i], err = strconv.ParseFloat(fields[field], 64); err != nil {
			return 0, 0, 0, err
		}
	}
	return int(n[0]), (n[1] + n[2]) / 100, (n[3] + n[4]) / 100, nil
}

// processCPU is the CPU seconds of a process; NaN where that cannot be read.
func processCPU(pid int) float64 {
	_, own, _, err := processStat(pid)
	if err != nil {
		return math.NaN()
	}
	return own
}

// postmaster is the process id of the embedded server: the parent of the backend that answers. 0 where that cannot be read.
func (b *bench) postmaster(ctx context.Context) int {
	var backend int
	if err := b.store.pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0
	}
	parent, _, _, err := processStat(backend)
	if err != nil {
		return 0
	}
	return parent
}

// serverCPU is the CPU seconds of the server: its postmaster, all backends that live, and those that have ended.
func serverCPU(postmaster int) float64 {
	_, own, reaped, err := processStat(postmaster)
	if err != nil {
		return math.NaN()
	}
	sum := own + reaped
	stats, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range stats {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if parent, own, _, err := processStat(pid); err == nil && parent == postmaster { // one that has just ended is the postmaster's by now
			sum += own
		}
	}
	return sum
}
