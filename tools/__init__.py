"""Operations, one package per area. This layer decides, records and launches; it never imports torch."""
