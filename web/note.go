package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"weir/db/dbsqlc"
	"weir/jobs"
	"weir/web/ui"
)

// maxNote is how long a note may be, in characters; the table says the same.
const maxNote = 4000

// noteView is a note as it is shown.
type noteView struct {
	ID           int64
	Author, Body string
	At           time.Time
	Mine         bool // may be removed by who looks at it: it is theirs, or they are an administrator
}

func (s *Server) listNotes(ctx context.Context, destination int64, f ui.Frame) ([]noteView, error) {
	rows, err := s.queries.DestinationNoteList(ctx, s.Pool, destination, notesShown)
	if err != nil {
		return nil, fmt.Errorf("list notes: %w", err)
	}
	notes := make([]noteView, len(rows))
	for i, row := range rows {
		notes[i] = noteView{row.ID, row.Author, row.Body, row.CreatedAt, f.Can(ui.Administrator) || (f.Can(ui.Operator) && row.Author == f.Operator)}
	}
	return notes, nil
}

func (s *Server) noteAdd(c echo.Context) error {
	return s.destinationAction(c, "Noted.", func(ctx context.Context, d Destination) error {
		body := strings.TrimSpace(strings.ReplaceAll(c.FormValue("note"), "\r\n", "\n"))
		switch {
		case body == "":
			return invalid("note", "is empty")
		case !utf8.ValidString(body) || strings.ContainsRune(body, 0):
			return invalid("note", "is not valid text")
		case utf8.RuneCountInString(body) > maxNote:
			return invalid("note", fmt.Sprintf("is longer than %d characters", maxNote))
		}
		who, _ := c.Get(operatorKey).(operator)
		err := s.queries.DestinationNoteInsert(ctx, s.Pool, dbsqlc.DestinationNoteInsertParams{DestinationID: d.RowID, Author: who.Name, AuthorID: orNil(who.ID), Body: body})
		if err != nil {
			return fmt.Errorf("add note: %w", err)
		}
		return nil
	})
}

// noteDelete removes a note; the audit log keeps what it said. Of others' notes only an administrator removes any.
func (s *Server) noteDelete(c echo.Context) error {
	return s.destinationAction(c, "The note is removed; the history keeps it.", func(ctx context.Context, d Destination) error {
		id, err := parseID("note_", c.Param("note"))
		if err != nil {
			return err
		}
		who, _ := c.Get(operatorKey).(operator)
		return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
			note, err := s.queries.DestinationNoteDelete(ctx, tx, id, d.RowID)
			if errors.Is(err, pgx.ErrNoRows) {
				return &jobs.NotFoundError{What: "note", ID: formatID("note_", id)}
			}
			if err != nil {
				return fmt.Errorf("delete note: %w", err)
			}
			if who.Role < ui.Administrator && (note.AuthorID == nil || *note.AuthorID != who.ID) {
				return &jobs.ConflictError{What: "note", Problem: "only its author or an administrator removes it"}
			}
			return s.audit(ctx, tx, auditEntry{
				action: "destination.forget_note", object: auditedDestination(d.RowID, d.Name), before: facts{"note": note.Body, "author": note.Author},
			})
		})
	})
}
